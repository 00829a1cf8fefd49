// Reads text/event-stream from a fetch. EventSource cannot: it neither posts nor sends a key.

const kLongestEvent = 16 << 20; // characters; a server that sends more is broken

// The data of each event as it completes; comments and other fields are passed over.
export async function* eventData(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      if (rest.length > kLongestEvent) throw new Error("the server sent an endless line");
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line.startsWith("data: ") ? 6 : 5));
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
