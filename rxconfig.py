from tensorant_app.config import config as config
