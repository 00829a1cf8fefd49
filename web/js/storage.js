// Conversations in the browser's IndexedDB, one record each. Where that is forbidden or full, they live in memory
// and the page says so; nothing of the chat depends on it.

function asPromise(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function openDatabase() {
  const request = indexedDB.open("perigee", 1);
  request.onupgradeneeded = () => request.result.createObjectStore("conversations", { keyPath: "id" });
  return asPromise(request);
}

export class Storage {
  // `onTrouble(sentence)` hears, once for each kind, of what could not be kept; `onSaving(saving)` whether a change
  // is still on its way, so that closing the page would lose it.
  constructor(onTrouble, onSaving) {
    this.onTrouble = onTrouble;
    this.onSaving = onSaving;
    this.saving = 0;
    this.database = null;
    this.told = new Set();
  }

  tell(sentence) {
    if (this.told.has(sentence)) return;
    this.told.add(sentence);
    this.onTrouble(sentence);
  }

  async open() {
    try {
      this.database = await openDatabase();
      return await this.run("readonly", (store) => store.getAll());
    } catch {
      this.tell("This browser keeps no conversations for this page; they last until the tab is closed.");
      return [];
    }
  }

  run(mode, work) {
    const transaction = this.database.transaction("conversations", mode);
    const request = asPromise(work(transaction.objectStore("conversations")));
    const done = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onabort = () => reject(transaction.error); // a full disk aborts as late as here
    });
    return Promise.all([request, done]).then(([result]) => result);
  }

  async change(work, trouble) {
    if (!this.database) return;
    this.onSaving(++this.saving > 0);
    try {
      await this.run("readwrite", work);
    } catch {
      this.tell(trouble);
    } finally {
      this.onSaving(--this.saving > 0);
    }
  }

  put(conversation) {
    return this.change(
      (store) => store.put(structuredClone(conversation)),
      "The browser's storage is full: changes last until the tab is closed. Export or delete conversations.");
  }

  remove(id) {
    return this.change(
      (store) => store.delete(id), "A conversation could not be deleted from the browser's storage.");
  }
}
