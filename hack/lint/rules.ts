// SPDX-License-Identifier: Apache-2.0
// This project's own oxlint rules (ADR 0125), run in Node.js through ESLint's interface.

/** Fields of ESLint's AST nodes that these rules read. */
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

/** An import, or an export of another module's names. */
interface Import extends Node {
  readonly source: (Node & { readonly value?: unknown }) | null;
}

interface ModuleDeclaration extends Node {
  readonly id: Node & { readonly value?: unknown };
}

interface Literal extends Node {
  readonly value: unknown;
}

interface Context {
  readonly sourceCode: { getAllComments(): readonly (Node & { readonly value: string })[] };
  report(finding: { readonly node: Node; readonly message: string }): void;
}

interface Visitor {
  ExportAllDeclaration?(node: ExportAll & Import): void;
  ExportDefaultDeclaration?(node: Node): void;
  CallExpression?(node: Call): void;
  SpreadElement?(node: Spread): void;
  ImportDeclaration?(node: Import): void;
  ExportNamedDeclaration?(node: Import): void;
  ImportExpression?(node: Import): void;
  TSModuleDeclaration?(node: ModuleDeclaration): void;
  Literal?(node: Literal): void;
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

/** Rejects wildcard and default exports, so that an import shows a name's source, and a name is the same in all files. */
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

/** Rejects log messages with placeholders. A constant message identifies one event and can be searched for. */
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

/** Returns what is wrong with a comment that disables a lint rule. */
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

/** Requires that a directive names the rule, gives a reason, and applies to one line. */
const explainedDirectives: Rule = {
  create: (context) => ({
    Program() {
      reportDirectives(context);
    },
  }),
};

const LITERALS = new Set(["ObjectExpression", "ArrayExpression"]);

/** Rejects spreads of literals, which only evade limits on lines. */
const noLiteralSpread: Rule = {
  create: (context) => ({
    SpreadElement(node) {
      if (!LITERALS.has(node.argument.type)) return;
      context.report({ node, message: "Write the properties or elements without the spread." });
    },
  }),
};

/** Folders that hold a library's own modules. */
const INTERNAL_FOLDERS = new Set(["lib", "dist", "internal", "src"]);

/** Checks whether a path leads into an internal folder. The path begins with the name of the library. */
function isInternalPath(library: string): boolean {
  const [scope = "", ...rest] = library.split("/");
  const folders = scope.startsWith("@") ? rest.slice(1) : rest;
  return folders.some((folder) => INTERNAL_FOLDERS.has(folder));
}

function isLibraryInternal(specifier: unknown): boolean {
  if (typeof specifier !== "string") return false;
  const isOurs = /^(?:[./]|node:|@patchbay\/)/.test(specifier);
  return !isOurs && isInternalPath(specifier);
}

function isPathToInternal(value: unknown): boolean {
  if (typeof value !== "string" || !value.includes("node_modules/")) return false;
  return isInternalPath(value.slice(value.lastIndexOf("node_modules/") + "node_modules/".length));
}

/** Rejects imports of internal modules, which a library may move in any release. */
const noLibraryInternals: Rule = {
  create: (context) => {
    const message = "Import what the library exports, not a module inside it.";
    const check = (node: Node, specifier: unknown): void => {
      if (isLibraryInternal(specifier)) context.report({ node, message });
    };
    const checkSource = (node: Import): void => {
      check(node, node.source?.value);
    };
    return {
      ImportDeclaration: checkSource,
      ExportNamedDeclaration: checkSource,
      ExportAllDeclaration: checkSource,
      ImportExpression: checkSource,
      TSModuleDeclaration: (node) => {
        check(node, node.id.value);
      },
      Literal: (node) => {
        if (isPathToInternal(node.value)) context.report({ node, message });
      },
    };
  },
};

const rules: Readonly<Record<string, Rule>> = {
  "named-exports": namedExports,
  "constant-messages": constantMessages,
  "explained-directives": explainedDirectives,
  "no-literal-spread": noLiteralSpread,
  "no-library-internals": noLibraryInternals,
};

export default { meta: { name: "patchbay" }, rules };
