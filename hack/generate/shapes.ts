// SPDX-License-Identifier: Apache-2.0
// Renders the shapes of built-in kinds: names, types and formats of fields, from the Kubernetes client's models.
import * as client from "@kubernetes/client-node";
import ts from "typescript";
import { HOMES, KIND_MODELS, MERGES, MORE_MODELS, QUANTITIES } from "./shape-facts.ts";

interface Attribute {
  readonly name: string;
  readonly baseName: string;
  readonly type: string;
  readonly format: string;
}

interface Model {
  readonly attributes: readonly Attribute[];
  readonly required: ReadonlySet<string>;
}

/** Reads the types of the Kubernetes client. Only the types show which fields are required. */
function readTypes(): { readonly checker: ts.TypeChecker; readonly models: readonly ts.Symbol[] } {
  const options = { module: ts.ModuleKind.NodeNext, types: [] };
  const program = ts.createProgram([import.meta.filename], options);
  const checker = program.getTypeChecker();
  const found = program
    .getSourceFile(import.meta.filename)
    ?.statements.filter(ts.isImportDeclaration)
    .map(({ moduleSpecifier }) => checker.getSymbolAtLocation(moduleSpecifier))
    .find((symbol) => symbol !== undefined);
  if (found === undefined) throw new Error("the Kubernetes client has no types");
  return { checker, models: checker.getExportsOfModule(found) };
}

function makeModelLoader(): (name: string) => Model {
  const { checker, models } = readTypes();
  const types = new Map(models.map((symbol) => [symbol.name, symbol]));
  const classes = client as unknown as Readonly<
    Record<string, { readonly attributeTypeMap?: readonly Attribute[] }>
  >;
  return (name) => {
    const attributes = classes[name]?.attributeTypeMap;
    const symbol = types.get(name);
    if (attributes === undefined || symbol === undefined) throw new Error(`${name} has no fields`);
    const fields = checker.getDeclaredTypeOfSymbol(symbol).getProperties();
    const required = fields.filter(({ flags }) => (flags & ts.SymbolFlags.Optional) === 0);
    return { attributes, required: new Set(required.map((field) => field.name)) };
  };
}

const SCALARS: Readonly<Record<string, string>> = {
  "string ": "string",
  "string byte": "bytes",
  "boolean ": "boolean",
  "number int32": "int32",
  "number int64": "int64",
  "number double": "double",
  "Date date-time": "time",
  "V1MicroTime date-time-micro": "micro-time",
  "IntOrString int-or-string": "int-or-string",
  "any ": "any",
};

/** Prints a type for shapes.json: `[]` before list items, `{}` before map values, other models by name. */
function toWords(type: string, format: string): string {
  const list = /^Array<(.*)>$/.exec(type)?.[1];
  if (list !== undefined) return `[]${toWords(list, format)}`;
  const map = /^\{ \[key: string\]: (.*); \}$/.exec(type)?.[1];
  if (map !== undefined) return `{}${toWords(map, format)}`;
  const scalar = SCALARS[`${type} ${format}`] ?? SCALARS[`${type} `];
  if (scalar !== undefined) return scalar;
  if (!/^[A-Z]\w*V\d|^V\d/.test(type)) throw new Error(`no word for ${type} ${format}`);
  return type;
}

function modelIn(text: string): string | undefined {
  return /(?<!\w)[A-Z]\w*$/.exec(text)?.[0];
}

type Models = ReadonlyMap<string, { readonly home: string; readonly model: Model }>;

/** Returns all models that kinds reference, each with the package of the first kind that references it. */
function reachable(): Models {
  const loadModel = makeModelLoader();
  const found = new Map<string, { home: string; model: Model }>();
  const visit = (name: string, home: string): void => {
    if (found.has(name)) return;
    const model = loadModel(name);
    found.set(name, { home: HOMES[name] ?? home, model });
    for (const { type, format } of model.attributes) {
      const next = modelIn(toWords(type, format));
      if (next !== undefined) visit(next, home);
    }
  };
  for (const [kind, name] of Object.entries(KIND_MODELS)) {
    const [group = "", version = ""] = kind.split("/").slice(0, -1);
    const home = version === "" ? `core.${group}` : `${group.replace(/\..*/, "")}.${version}`;
    visit(name, home);
  }
  for (const name of MORE_MODELS) visit(name, "core.v1");
  return found;
}

function shortName(name: string): string {
  return name.replace(/^([A-Z][a-z]+)?V\d+/, "");
}

/** Throws if MERGES or QUANTITIES mention fields that no model has. */
function refuseUnusedFacts(models: Models): void {
  const fields = new Set(
    [...models].flatMap(([name, { model }]) =>
      model.attributes.map(({ baseName }) => `${name}.${baseName}`),
    ),
  );
  const unused = [...QUANTITIES, ...Object.keys(MERGES)].filter((fact) => !fields.has(fact));
  if (unused.length > 0) throw new Error(`shape-facts.ts: no model has ${unused.join(", ")}`);
}

export function renderShapes(): string {
  const models = reachable();
  refuseUnusedFacts(models);
  const nameOf = (name: string) => {
    const home = models.get(name)?.home;
    if (home === undefined) throw new Error(`${name} is not reached`);
    return `${home}.${shortName(name)}`;
  };
  const toField = (name: string, attribute: Attribute, required: boolean): string => {
    const at = `${name}.${attribute.baseName}`;
    const text = toWords(attribute.type, attribute.format);
    const known = modelIn(text);
    const typed = known === undefined ? text : text.replace(known, nameOf(known));
    const exact = QUANTITIES.has(at) ? typed.replace("string", "quantity") : typed;
    const merge = MERGES[at];
    return `${required ? "!" : ""}${exact}${merge === undefined ? "" : ` ${merge}`}`;
  };
  const types = [...models].map(([name, { model }]) => {
    const fields = model.attributes.map(
      (attribute) =>
        [attribute.baseName, toField(name, attribute, model.required.has(attribute.name))] as const,
    );
    return [nameOf(name), Object.fromEntries(fields)] as const;
  });
  if (new Set(types.map(([name]) => name)).size !== types.length) throw new Error("names collide");
  types.sort(([left], [right]) => (left < right ? -1 : 1));
  const kinds = Object.entries(KIND_MODELS).map(([kind, name]) => [kind, nameOf(name)] as const);
  const shapes = { kinds: Object.fromEntries(kinds), types: Object.fromEntries(types) };
  return `${JSON.stringify(shapes, null, 2)}\n`;
}
