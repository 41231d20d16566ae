// CSV as spreadsheets read it.
import { describe, expect, it } from "vitest";
import { toCsv } from "../../../src/kernel/text/csv.ts";

describe("CSV", () => {
  it("quotes what RFC 4180 asks for, and ends every line with CR LF", () => {
    const rows = [["a,b", 'say "hi"', "two\nlines", 1, null, "plain"]];
    expect(toCsv(["n"], rows)).toBe('n\r\n"a,b","say ""hi""","two\nlines",1,,plain\r\n');
    expect(toCsv(["a", "b"], [])).toBe("a,b\r\n");
  });

  it("keeps a spreadsheet from running a cell as a formula", () => {
    for (const text of ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"]) expect(toCsv([text], [])).toBe(`'${text}\r\n`);
    expect(toCsv(["\r=1"], [])).toBe(`"'\r=1"\r\n`);
    expect(toCsv(['=HYPERLINK("x","y")'], [])).toBe(`"'=HYPERLINK(""x"",""y"")"\r\n`);
    expect(toCsv(["a=1", "1-1"], [[-1]])).toBe("a=1,1-1\r\n-1\r\n");
  });

  it("leaves text of any script as it is", () => {
    expect(toCsv(["\u202Etxt", "Ácme", "日本"], [])).toBe("\u202Etxt,Ácme,日本\r\n");
  });
});
