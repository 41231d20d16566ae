// Saves a file that was made in the browser.
const RELEASE_MS = 10_000;

export function download(name: string, parts: BlobPart[], type = "text/plain;charset=utf-8"): void {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), RELEASE_MS);
}
