// Says a streamed reply to screen readers sentence by sentence; a live region that grew with every token would
// begin anew with each. The messages themselves are therefore not live.
import { byId } from "./dom.js";

const kPauseMilliseconds = 700; // between two announcements, so that none is lost
let waiting = "";
let timer = 0;

function flush() {
  timer = 0;
  if (waiting === "") return;
  byId("announcer").textContent = waiting;
  waiting = "";
  timer = setTimeout(flush, kPauseMilliseconds);
}

export function announce(text) {
  waiting = waiting === "" ? text : `${waiting} ${text}`;
  if (timer === 0) timer = setTimeout(flush, 50);
}

// Feeds on a reply that grows; says whole sentences.
export class SentenceReader {
  constructor() {
    this.said = 0;
  }

  feed(text, ended) {
    const fresh = text.slice(this.said);
    const sentences = ended ? fresh : (fresh.match(/^[\s\S]*[.!?:\n。！？](?=\s)/) ?? [""])[0];
    if (sentences.trim() !== "") announce(sentences.trim());
    this.said += sentences.length;
  }
}
