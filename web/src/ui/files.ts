// Files that users attach.

import type { MessageAttachment } from "../ahp/types.gen";

/** The host takes 8 MiB with a message; base64 needs a third more. */
const MAX_BYTES = 5 * 1024 * 1024;

export async function readFiles(files: File[]): Promise<MessageAttachment[]> {
  const tooLarge = files.find((file) => file.size > MAX_BYTES);
  if (tooLarge) throw new Error(`${tooLarge.name} is larger than 5 MB`);
  return Promise.all(
    files.map(async (file) => ({
      type: "embeddedResource" as const,
      label: file.name || "Pasted image",
      contentType: file.type || "application/octet-stream",
      data: base64(new Uint8Array(await file.arrayBuffer())),
      ...(file.type.startsWith("image/") && { displayKind: "image" }),
    })),
  );
}

function base64(bytes: Uint8Array): string {
  let binary = "";
  const step = 0x8000;
  for (let at = 0; at < bytes.length; at += step) binary += String.fromCharCode(...bytes.subarray(at, at + step));
  return btoa(binary);
}
