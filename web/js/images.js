// Images beside a message: chosen, pasted or dropped. Only where the server says that the model sees
// (`supports_image_in` in /v1/models); otherwise the button says why not.
import { byId, el } from "./dom.js";

const kTypes = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const kMostBytes = 20 << 20;
const kMostImages = 8;

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

export class Images {
  constructor(onTrouble) {
    this.urls = [];
    this.seen = false;
    this.onTrouble = onTrouble;
    const [button, input, composer] = [byId("add-image"), byId("image-file"), byId("composer")];
    button.addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      this.add(input.files);
      input.value = "";
    });
    composer.addEventListener("paste", (event) => this.add(event.clipboardData?.files ?? []));
    byId("chat").addEventListener("dragover", (event) => {
      event.preventDefault(); // also where images are refused: a dropped file must not replace the page
      if (event.dataTransfer) event.dataTransfer.dropEffect = this.seen ? "copy" : "none";
    });
    byId("chat").addEventListener("drop", (event) => {
      event.preventDefault();
      this.add(event.dataTransfer?.files ?? []);
    });
  }

  setSeen(seen) {
    this.seen = seen;
    byId("add-image").disabled = !seen;
    byId("add-image").title = seen ? "Attach an image" : "The served model has no eyes";
    byId("image-reason").textContent = seen ? "" : "This model sees no images.";
  }

  async add(files) {
    for (const file of files) {
      if (!this.seen) return;
      if (!kTypes.includes(file.type)) this.onTrouble(`${file.name} is no PNG, JPEG, WebP or GIF.`);
      else if (file.size > kMostBytes) this.onTrouble(`${file.name} is larger than 20 MB.`);
      else if (this.urls.length >= kMostImages) this.onTrouble(`A message has at most ${kMostImages} images.`);
      else this.urls.push(await dataUrl(file));
    }
    this.show();
  }

  show() {
    byId("images").replaceChildren(...this.urls.map((url, i) => el("li", {}, el("img", { src: url, alt: `Image ${i + 1}` }),
      el("button", { type: "button", class: "quiet", "aria-label": `Remove image ${i + 1}`, onclick: () => {
        this.urls.splice(i, 1);
        this.show();
      } }, "×"))));
  }

  // What is attached, which then no longer is.
  take() {
    const urls = this.urls;
    this.urls = [];
    this.show();
    return urls;
  }
}
