// Browsers start no worker from a file: address, and the search is a worker. In pages opened from a
// folder a hidden frame does its work; elsewhere this does nothing.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.onmessage?.(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      this.ready = new Promise((done) => (script.onload = done));
      script.onerror = () => this.onerror?.(new Event("error"));
      script.src = new URL(url, document.baseURI).href;
      inside.document.body.appendChild(script);
    }
    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
