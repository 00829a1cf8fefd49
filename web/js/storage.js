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
  // `onTrouble(sentence)` hears, once for each kind, of what could not be kept.
  constructor(onTrouble) {
    this.onTrouble = onTrouble;
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

  async put(conversation) {
    if (!this.database) return;
    try {
      await this.run("readwrite", (store) => store.put(structuredClone(conversation)));
    } catch {
      this.tell("The browser's storage is full: changes last until the tab is closed. Export or delete conversations.");
    }
  }

  async remove(id) {
    if (!this.database) return;
    try {
      await this.run("readwrite", (store) => store.delete(id));
    } catch {
      this.tell("A conversation could not be deleted from the browser's storage.");
    }
  }
}
