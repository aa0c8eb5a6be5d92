// Sends a chosen file in pieces, and goes on where it stopped: after a dropped connection by itself, after a closed tab
// when the same file is chosen again. An <input type=file data-upload="dataset id" data-upload-next="/…/{id}"> is all
// that a page needs (data-upload-of="run": a run's id, for its adapter.zip, and the page stays); beside it, inside [data-uploading], lie a <progress>, [data-upload-says], [data-upload-pause] and
// [data-upload-cancel].
(() => {
  const PIECE = 4 * 1024 * 1024;
  const LONGEST_PAUSE = 10_000;
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const remembered = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
  const remember = (key, id) => { try { id ? localStorage.setItem(key, id) : localStorage.removeItem(key); } catch { /* off */ } };

  class Refusal extends Error {}

  const ask = async (method, path, options = {}) => {
    const answer = await fetch(path, { method, cache: "no-store", ...options });
    const said = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
    if (answer.status === 409 && "offset" in said) return said;
    if (answer.status >= 400 && answer.status < 500 || answer.status === 507) {
      throw new Refusal([said.error || "The upload was refused.", ...(said.reasons || [])].join(" "));
    }
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    return said;
  };

  const begin = async (file, subject, key, of) => {
    const known = remembered(key);
    if (known) {
      try {
        const found = await ask("GET", `/api/uploads/${known}`);
        if (found.size === file.size && ["receiving", "checking", "ready", "accepted"].includes(found.state)) return found;
      } catch (error) { if (!(error instanceof Refusal)) throw error; }
    }
    const body = JSON.stringify({ [of]: subject, name: file.name, size: file.size });
    const made = await ask("POST", "/api/uploads", { body, headers: { "content-type": "application/json" } });
    remember(key, made.id);
    return made;
  };

  // Answers the id of the upload, or throws a Refusal whose message is a sentence for people.
  window.tensorantUpload = async (file, subject, { of = "dataset", onProgress = () => {}, signal, hold = async () => {} } = {}) => {
    const key = `upload:${subject}:${file.name}:${file.size}:${file.lastModified}`;
    let upload = null;
    let wait = 500;
    for (;;) {
      try {
        upload = upload || await begin(file, subject, key, of);
        while (upload.offset < upload.size || upload.state === "receiving") {
          await hold();
          const from = Math.min(upload.offset, Math.max(upload.size - 1, 0));
          const body = file.slice(from, from + PIECE);
          const sent = await ask("PATCH", `/api/uploads/${upload.id}?offset=${from}`, { body, signal });
          upload = { ...upload, offset: sent.offset, state: sent.offset === upload.size ? "checking" : "receiving" };
          onProgress(upload.offset, upload.size, "");
          wait = 500;
        }
        remember(key, null);
        return upload.id;
      } catch (error) {
        if (signal?.aborted) {
          if (upload) await ask("DELETE", `/api/uploads/${upload.id}`).catch(() => {});
          remember(key, null);
          throw new Refusal("The upload is cancelled.");
        }
        if (error instanceof Refusal) { remember(key, null); throw error; }
        onProgress(upload?.offset ?? 0, file.size, "The connection dropped. The upload goes on by itself …");
        await pause(wait);
        wait = Math.min(wait * 2, LONGEST_PAUSE);
        upload = upload && await ask("GET", `/api/uploads/${upload.id}`).catch(() => upload);
      }
    }
  };

  const size = (bytes) => bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

  document.addEventListener("change", async (event) => {
    const input = event.target;
    if (!input.matches?.("input[type=file][data-upload]") || !input.files.length) return;
    const place = input.closest("[data-uploading]") || document;
    const [bar, says, cancel, rest] = ["progress", "[data-upload-says]", "[data-upload-cancel]", "[data-upload-pause]"].map((s) => place.querySelector(s));
    const stopper = new AbortController();
    const say = (text) => { if (says) { says.textContent = text; says.hidden = !text; } };
    const leaving = (leave) => leave.preventDefault();
    const stop = () => stopper.abort();
    let isHeld = false;
    const turn = () => { isHeld = !isHeld; if (rest) rest.textContent = isHeld ? "Go on" : "Pause"; };
    const hold = async () => {
      if (isHeld) say("Paused. What has arrived is kept.");
      while (isHeld && !stopper.signal.aborted) await pause(100);
    };
    cancel?.addEventListener("click", stop);
    rest?.addEventListener("click", turn);
    window.addEventListener("beforeunload", leaving);
    input.disabled = true;
    place.dataset && (place.dataset.uploading = "busy");
    try {
      const id = await window.tensorantUpload(input.files[0], input.dataset.upload, {
        of: input.dataset.uploadOf,
        signal: stopper.signal,
        hold,
        onProgress: (done, total, trouble) => {
          if (bar) { bar.max = total; bar.value = done; bar.hidden = false; }
          say(trouble || `${size(done)} of ${size(total)}`);
        },
      });
      window.removeEventListener("beforeunload", leaving);
      if (input.dataset.uploadNext) window.location.assign(input.dataset.uploadNext.replace("{id}", id));
      else { say(""); if (bar) bar.hidden = true; }
    } catch (error) {
      say(error.message);
      place.dataset && (place.dataset.uploading = "");
    } finally {
      window.removeEventListener("beforeunload", leaving);
      cancel?.removeEventListener("click", stop);
      rest?.removeEventListener("click", turn);
      if (rest) rest.textContent = "Pause";
      input.disabled = false;
      input.value = "";
    }
  });
})();
