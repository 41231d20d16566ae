// Scripts in ASCII. One character beyond Latin-1 makes V8 keep and scan a whole script with two bytes for each.

/** For output of esbuild with `charset: "ascii"`, which escapes texts but not regular expressions. */
export function toAscii(script: string): string {
  return script.replace(/[\x80-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
