// Text from others on a terminal: no control character reaches it, and JSON keeps its value.
import { afterEach, describe, expect, it, vi } from "vitest";
import { escapeControls, escapeLines, printResult } from "../../src/cli/ui/output.ts";
import { terminalLines } from "../../src/cli/ui/terminal-lines.ts";

const HOSTILE = "\u001b[31m\u0007\u009b\u007f\u061c\u202e\u2066é😀";

afterEach(() => {
  vi.restoreAllMocks();
});

describe("text from others", () => {
  it("has its control characters and direction marks escaped", () => {
    expect(escapeControls(HOSTILE)).toBe("\\u001b[31m\\u0007\\u009b\\u007f\\u061c\\u202e\\u2066é😀");
    expect(escapeLines("a\r\nb\rc\nd\te")).toBe("a\r\nb\\u000dc\nd\\u0009e");
  });

  it("is the same JSON value with --json", () => {
    const write = vi.spyOn(process.stdout, "write").mockReturnValue(true);
    printResult({ json: true }, { json: { name: HOSTILE }, quiet: "", human: "" });
    const printed = String(write.mock.calls[0]?.[0]);
    expect(JSON.parse(printed)).toEqual({ name: HOSTILE });
    expect(printed).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u202e\u2066]/);
  });

  it("is escaped as a stream too, wherever its chunks end", () => {
    const bytes = Buffer.from(`"${HOSTILE}",1\r\n"b",2\r\n`);
    const whole: string[] = [];
    const out = terminalLines({
      write: (text: string, done: unknown) => {
        whole.push(text);
        (done as () => void)();
        return true;
      },
    });
    for (const byte of bytes) out.write(Buffer.from([byte]));
    expect(whole.join("")).toBe(`"${escapeControls(HOSTILE)}",1\r\n"b",2\r\n`);
  });
});
