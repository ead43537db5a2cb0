// SPDX-License-Identifier: Apache-2.0
// This project's own oxlint rules (ADR 0125), run in Node.js through ESLint's interface.

/** The fields that these rules read. */
interface Node {
  readonly type: string;
  readonly name?: string;
}

interface ExportAll extends Node {
  readonly exported: Node | null;
}

interface Spread extends Node {
  readonly argument: Node;
}

interface Call extends Node {
  readonly callee: Node & { readonly object?: Node; readonly property?: Node };
  readonly arguments: readonly Node[];
}

interface Context {
  readonly sourceCode: { getAllComments(): readonly (Node & { readonly value: string })[] };
  report(finding: { readonly node: Node; readonly message: string }): void;
}

interface Visitor {
  ExportAllDeclaration?(node: ExportAll): void;
  ExportDefaultDeclaration?(node: Node): void;
  CallExpression?(node: Call): void;
  SpreadElement?(node: Spread): void;
  Program?(): void;
}

interface Rule {
  create(context: Context): Visitor;
}

const LOG_METHODS = new Set(["debug", "info", "warn", "error"]);
/** A directive of either linter. */
const DIRECTIVE = /^\s*(?:eslint|oxlint)-(?:disable|enable)/;
/** The only accepted directive. */
const WANTED = "oxlint-disable-next-line ";

/** An import must show a name's source, and a name must be the same everywhere. */
const namedExports: Rule = {
  create: (context) => ({
    ExportAllDeclaration(node) {
      if (node.exported === null) context.report({ node, message: "Name what you export." });
    },
    ExportDefaultDeclaration(node) {
      context.report({ node, message: "Named exports only." });
    },
  }),
};

function isLogMethod({ callee: { object, property } }: Call): boolean {
  return object?.name === "log" && LOG_METHODS.has(property?.name ?? "");
}

/** A constant message stands for one event and can be searched for. */
const constantMessages: Rule = {
  create: (context) => ({
    CallExpression(node) {
      const [message] = node.arguments;
      if (message?.type !== "TemplateLiteral" || !isLogMethod(node)) return;
      context.report({
        node: message,
        message: "The message is constant; what varies goes into fields.",
      });
    },
  }),
};

/** The fault in a comment that silences a linter. */
function faultOf(text: string): string | undefined {
  if (!DIRECTIVE.test(text)) return undefined;
  const directive = text.trim();
  if (!directive.startsWith(WANTED)) return `Silence one line: ${WANTED}RULE -- why.`;
  const [rules = "", why = ""] = directive.slice(WANTED.length).split(" -- ");
  const isExplained = rules.trim() !== "" && why.trim() !== "";
  return isExplained ? undefined : "Name the rules, and say why: RULE -- why.";
}

function reportDirectives(context: Context): void {
  for (const comment of context.sourceCode.getAllComments()) {
    const message = faultOf(comment.value);
    if (message !== undefined) context.report({ node: comment, message });
  }
}

/** A finding is silenced at its line, by its name, with a reason. */
const explainedDirectives: Rule = {
  create: (context) => ({
    Program() {
      reportDirectives(context);
    },
  }),
};

const LITERALS = new Set(["ObjectExpression", "ArrayExpression"]);

/** A spread of a literal only evades limits on lines. */
const noLiteralSpread: Rule = {
  create: (context) => ({
    SpreadElement(node) {
      if (!LITERALS.has(node.argument.type)) return;
      context.report({ node, message: "Write the properties or elements without the spread." });
    },
  }),
};

const rules: Readonly<Record<string, Rule>> = {
  "named-exports": namedExports,
  "constant-messages": constantMessages,
  "explained-directives": explainedDirectives,
  "no-literal-spread": noLiteralSpread,
};

export default { meta: { name: "patchbay" }, rules };
