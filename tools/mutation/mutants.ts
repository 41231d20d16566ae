// Mutants of a source file: a comparison reversed, a number changed, a condition negated, a statement removed. A test
// that passes under a mutant does not check that line.
import { parseAst } from "vite";

type Edit = { from: number; to: number; text: string; kind: string };
/** `code` is the line that it changes. */
export type Mutant = Edit & { file: string; line: number; code: string; was: string };
type Node = { type: string; start: number; end: number } & Record<string, unknown>;

const OPERATORS: Record<string, string> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "%": "*",
  "&&": "||",
  "||": "&&",
  "??": "&&",
  "+=": "-=",
  "-=": "+=",
  "<<": ">>",
  ">>>": "<<",
  ">>": "<<",
  "^": "|",
  "&": "|",
  "|": "&",
};

/** Comparison operators of the query builder, which are strings. */
const SQL_OPERATORS: Record<string, string> = { "<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "!=" };

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof (value as Node).type === "string";
}

/** Log lines, and errors that only a bug can raise: no logic depends on them. */
function isMessage({ type, callee, expression }: Node, source: string): boolean {
  if (type === "ExpressionStatement" && isNode(expression)) return isMessage(expression, source);
  if (!isNode(callee)) return false;
  const called = source.slice(callee.start, callee.end);
  if (type === "NewExpression") return /^(Type|Range)?Error$/.test(called);
  return /\blog\.(debug|info|warn|error)$/.test(called);
}

/** Every node except types and messages. */
function* nodes(node: Node, source: string): Generator<Node> {
  if (node.type.startsWith("TS") && !/^TS(As|Satisfies|NonNull)/.test(node.type)) return;
  if (isMessage(node, source)) return;
  yield node;
  for (const [name, value] of Object.entries(node)) {
    if (name === "typeAnnotation" || name === "typeArguments" || name === "returnType") continue;
    for (const each of Array.isArray(value) ? value : [value]) if (isNode(each)) yield* nodes(each, source);
  }
}

function isNegatedInside({ type, operator }: Node): boolean {
  return type === "UnaryExpression" ? operator === "!" : operator === "===" || operator === "!==";
}

/** A large number is doubled: one millisecond in a minute makes no observable difference. */
const changed = (value: number): number => (value < 1000 ? value + 1 : value * 2);

function* editsOf(node: Node, source: string): Generator<Edit> {
  const { type, start: from, end: to } = node;
  const { operator, left, right, test, argument, value, expression } = node as Record<string, unknown>;
  if (/^(Binary|Logical|Assignment)Expression$/.test(type) && isNode(left) && isNode(right)) {
    const at = source.indexOf(String(operator), left.end);
    const text = OPERATORS[String(operator)];
    if (text && at < right.start) yield { from: at, to: at + String(operator).length, text, kind: "operator" };
  }
  // A condition that is one `===` or one `!` is negated there: the same mutant would count twice.
  if (/^(IfStatement|ConditionalExpression|WhileStatement)$/.test(type) && isNode(test) && !isNegatedInside(test))
    yield { from: test.start, to: test.end, text: `!(${source.slice(test.start, test.end)})`, kind: "condition" };
  if (type === "UnaryExpression" && operator === "!" && isNode(argument))
    yield { from, to, text: `(${source.slice(argument.start, argument.end)})`, kind: "condition" };
  if (type === "UpdateExpression") {
    const text = source.slice(from, to);
    yield { from, to, text: text.includes("++") ? text.replace("++", "--") : text.replace("--", "++"), kind: "number" };
  }
  if (type === "Literal" && typeof value === "number") yield { from, to, text: String(changed(value)), kind: "number" };
  if (type === "Literal" && typeof value === "string" && SQL_OPERATORS[value])
    yield { from, to, text: `"${SQL_OPERATORS[value]}"`, kind: "operator" };
  if (type === "Literal" && typeof value === "boolean") yield { from, to, text: String(!value), kind: "condition" };
  if (type === "ExpressionStatement" && isNode(expression) && !/^(Literal|Identifier)$/.test(expression.type))
    yield { from, to, text: ";", kind: "dropped" };
}

export function mutantsOf(file: string, source: string): Mutant[] {
  const program = parseAst(source, { lang: "ts" }) as unknown as Node;
  const found: Mutant[] = [];
  for (const node of nodes(program, source)) {
    for (const edit of editsOf(node, source)) {
      const line = source.slice(0, edit.from).split("\n").length;
      const code = source.split("\n")[line - 1] ?? "";
      found.push({ ...edit, file, line, code, was: source.slice(edit.from, edit.to) });
    }
  }
  return found;
}

export function applyMutant(source: string, { from, to, text }: Mutant): string {
  return source.slice(0, from) + text + source.slice(to);
}
