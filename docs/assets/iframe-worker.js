// SPDX-License-Identifier: Apache-2.0
// Search in pages that are opened as files: browsers refuse workers there, so the worker's script runs in a hidden
// frame instead, with a worker's way of receiving and sending messages. Pages from a server keep real workers.
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.frame.contentDocument.createElement("script");
      script.addEventListener("load", () => this.started());
      script.src = new URL(url, location);
      this.frame.contentDocument.body.append(script);
    }

    started() {
      const early = this.waiting;
      this.waiting = null;
      early.forEach((data) => this.postMessage(data));
    }

    postMessage(data) {
      if (this.waiting) {
        this.waiting.push(data);
      } else {
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
      }
    }

    terminate() {
      this.frame.remove();
    }
  };
}
