// Text and tables of the generated documents.

/** Text that contains no HTML. */
export const escaped = (text: string): string => text.replaceAll("<", "&lt;");

export const row = (cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;

/** The first two lines of a table. */
export const heading = (cells: readonly string[]): string[] => [row(cells), row(cells.map(() => "---"))];
