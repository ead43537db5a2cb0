// SPDX-License-Identifier: Apache-2.0
// Computes which files a program imports, resolving names through a package's index to their file.
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import ts from "typescript";

/** One import, or a re-export. */
interface Link {
  readonly specifier: string;
  /** Requested names; undefined: all. */
  readonly names: readonly string[] | undefined;
}

/** A file's exports and imports, and its dynamic imports. */
interface Module {
  readonly links: readonly Link[];
  /** Re-exported names by their public name. */
  readonly handsOn: ReadonlyMap<
    string,
    { readonly specifier: string; readonly name: string | undefined }
  >;
}

interface Manifest {
  readonly exports?: Readonly<Record<string, { readonly "@patchbay/source": string }>>;
}

/** A package of this repository. */
interface Package {
  /** Relative to the repository's root. */
  readonly folder: string;
  readonly exports: Manifest["exports"];
}

const NOTHING: Module = { links: [], handsOn: new Map() };

/** Imported values; undefined: all. */
function importedNames(clause: ts.ImportClause | undefined): readonly string[] | undefined {
  const bindings = clause?.namedBindings;
  if (bindings === undefined || !ts.isNamedImports(bindings)) return undefined;
  return bindings.elements
    .filter(({ isTypeOnly }) => !isTypeOnly)
    .map(({ name, propertyName }) => (propertyName ?? name).text);
}

function isTypeImport(statement: ts.Statement): boolean {
  return (
    ts.isImportDeclaration(statement) &&
    statement.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword
  );
}

function specifierOf(statement: ts.ImportDeclaration | ts.ExportDeclaration): string | undefined {
  const { moduleSpecifier } = statement;
  return moduleSpecifier !== undefined && ts.isStringLiteral(moduleSpecifier)
    ? moduleSpecifier.text
    : undefined;
}

/** Dynamic imports, and programs started by a path relative to the file. */
function laterLinks(text: string): readonly Link[] {
  const loaded = text.matchAll(/\bimport\(\s*"([^"]+)"\s*\)|new URL\(\s*["`](\.[^"`$]+\.ts)["`]/g);
  return [...loaded].map(([, module, program]) => ({
    specifier: module ?? program ?? "",
    names: undefined,
  }));
}

function parseModule(path: string, text: string): Module {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest);
  const links: Link[] = [...laterLinks(text)];
  const handsOn = new Map<string, { specifier: string; name: string | undefined }>();
  for (const statement of source.statements) {
    if (ts.isImportDeclaration(statement) && !isTypeImport(statement)) {
      const names = importedNames(statement.importClause);
      links.push({ specifier: specifierOf(statement) ?? "", names });
    }
    if (!ts.isExportDeclaration(statement) || statement.isTypeOnly) continue;
    const specifier = specifierOf(statement);
    const { exportClause } = statement;
    if (specifier === undefined || exportClause === undefined) continue;
    if (ts.isNamespaceExport(exportClause)) {
      handsOn.set(exportClause.name.text, { specifier, name: undefined });
      continue;
    }
    for (const { isTypeOnly, name, propertyName } of exportClause.elements) {
      if (!isTypeOnly) handsOn.set(name.text, { specifier, name: (propertyName ?? name).text });
    }
  }
  return { links, handsOn };
}

/** The imports of a tree of packages. */
export class ImportGraph {
  readonly #root: string;
  readonly #modules = new Map<string, Module>();
  /** Cached by name, because a lookup per import took a third of the time. */
  readonly #packages = new Map<string, Package>();

  constructor(root: string) {
    this.#root = root;
  }

  /** Every file that a program loads, statically or dynamically, relative to the repository's root. */
  reachableFrom(entries: readonly string[]): ReadonlySet<string> {
    const reached = new Set<string>();
    const handedOn = new Set<string>();
    const ask = (from: string, { specifier, names }: Link): void => {
      const path = this.#resolve(from, specifier);
      if (path === undefined) return;
      const wanted = names ?? [...this.#read(path).handsOn.keys()];
      for (const name of wanted) follow(path, name);
      visit(path);
    };
    const follow = (path: string, name: string): void => {
      const found = this.#read(path).handsOn.get(name);
      if (found === undefined || handedOn.has(`${path} ${name}`)) return;
      handedOn.add(`${path} ${name}`);
      ask(path, {
        specifier: found.specifier,
        names: found.name === undefined ? undefined : [found.name],
      });
    };
    const visit = (path: string): void => {
      if (reached.has(path)) return;
      reached.add(path);
      for (const link of this.#read(path).links) ask(path, link);
    };
    for (const entry of entries) visit(entry);
    return reached;
  }

  #read(path: string): Module {
    const known = this.#modules.get(path);
    if (known !== undefined) return known;
    const isCode = path.endsWith(".ts");
    const module = isCode
      ? parseModule(path, readFileSync(join(this.#root, path), "utf8"))
      : NOTHING;
    this.#modules.set(path, module);
    return module;
  }

  /** The file of a specifier; undefined outside this repository. */
  #resolve(from: string, specifier: string): string | undefined {
    if (specifier.startsWith(".")) {
      const path = normalize(join(dirname(from), specifier));
      return existsSync(join(this.#root, path)) ? path : undefined;
    }
    const [, name, door] = /^@patchbay\/([a-z-]+)(\/.+)?$/.exec(specifier) ?? [];
    if (name === undefined) return undefined;
    const { folder, exports } = this.#package(name);
    const source = exports?.[`.${door ?? ""}`]?.["@patchbay/source"];
    return source === undefined ? undefined : normalize(join(folder, source));
  }

  #package(name: string): Package {
    const known = this.#packages.get(name);
    if (known !== undefined) return known;
    // By its manifest, because a move may leave a folder of the same name.
    const manifests = `{packages/{*/,},tests/}${name}/package.json`;
    const [path = ""] = globSync(manifests, { cwd: this.#root });
    const { exports } = JSON.parse(readFileSync(join(this.#root, path), "utf8")) as Manifest;
    const found = { folder: dirname(path), exports };
    this.#packages.set(name, found);
    return found;
  }
}
