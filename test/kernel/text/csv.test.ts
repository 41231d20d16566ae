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

  it("keeps a spreadsheet that splits at semicolons, or at the lines of a cell, from running what follows", () => {
    const written = (text: string): string => toCsv([text], []).slice(0, -2);
    expect(written("x;=1+A1")).toBe("x;'=1+A1");
    expect(written(";=1;@b;c")).toBe(";'=1;'@b;c");
    expect(written("x; =1")).toBe("x;' =1");
    expect(written('x;"=1"')).toBe(`"x;'""=1"""`);
    expect(written("x\t=1")).toBe("x\t'=1");
    expect(written("x\r\n-1")).toBe(`"x\r\n'-1"`);
    expect(written("\n=1")).toBe(`"'\n=1"`);
    for (const sign of "＝＋－＠")
      expect([written(`${sign}1`), written(`x;${sign}1`)]).toEqual([`'${sign}1`, `x;'${sign}1`]);
    for (const plain of ["a; b", "a;b=1", "a-b", "x=;1", "50 %; 3 + 4"]) expect(written(plain)).toBe(plain);
  });

  it("leaves text of any script as it is", () => {
    expect(toCsv(["\u202Etxt", "Ácme", "日本"], [])).toBe("\u202Etxt,Ácme,日本\r\n");
  });
});
