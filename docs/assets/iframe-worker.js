// Browsers start no worker from a file: address, and the search is a worker. In pages opened from a
// folder a hidden frame does its work; elsewhere this does nothing.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      const tell = (type, given) => this.dispatchEvent(new MessageEvent(type, given));
      const load = (address) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = address;
          script.onload = done;
          script.onerror = failed;
          inside.document.body.appendChild(script);
        });
      inside.postMessage = (data) => tell("message", { data });
      inside.importScripts = (...addresses) => Promise.all(addresses.map(load));
      this.ready = load(new URL(url, document.baseURI).href);
      this.ready.catch(() => tell("error", {}));
    }
    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
