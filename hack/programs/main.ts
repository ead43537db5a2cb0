// SPDX-License-Identifier: Apache-2.0
// Bundles each program into a few files, because a start would otherwise read a thousand. Skips the work if nothing was
// compiled since. Usage: main.ts [alone] alone: removes the previous bundle
import {
  existsSync,
  globSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createHash } from "node:crypto";
import http from "node:http";
import { dirname, join, relative } from "node:path";
import { rolldown, type Plugin } from "rolldown";

process.umask(0o022); // The caller's umask must not hide files from other users.
process.umask(0o022); // The caller's umask must not hide files from other users.

const root = join(import.meta.dirname, "../..");
const packages = join(root, "packages");

/** A program: its folder below `packages`, and its entry points by file name. */
interface Program {
  readonly folder: string;
  readonly entries: Readonly<Record<string, string>>;
}

function program(folder: string, more: Program["entries"] = {}): Program {
  return { folder, entries: { main: `${folder}/src/main.ts`, ...more } };
}

const PROGRAMS: readonly Program[] = [
  program("cli", { machine: "standalone/supervisor/src/main.ts" }),
  program("standalone/node-runtime"),
  program("standalone/service-net"),
  program("control-plane/net-agent"),
  program("control-plane/virt-api", { screenshot: "control-plane/virt-api/src/screen/worker.ts" }),
  program("control-plane/virt-controller"),
  program("control-plane/virt-handler", {
    "child-entry": "adapters/os/src/children/child-entry.ts",
    hypervisor: "adapters/libvirt/src/child.ts",
    hook: "adapters/hooks/src/child.ts",
    relay: "control-plane/virt-handler/src/relays/child.ts",
  }),
];

function outputOf({ folder }: Program): string {
  return join(packages, folder, "dist/bundle");
}

/** Returns the path of a module's compiled file. */
function compiled(source: string): string {
  return source.replace(/\/src\/(.*)\.ts$/, "/dist/$1.js");
}

/** Resolves data files beside a module to its compiled package, and modules that run as processes to the bundle. */
function places(of: Program): Plugin {
  const names = new Map(
    Object.entries(of.entries).map(([name, source]) => [compiled(join(packages, source)), name]),
  );
  const transform = (code: string, id: string): string | undefined => {
    if (!code.includes("import.meta.url")) return undefined;
    const module = compiled(id);
    const url = `new URL(${JSON.stringify(relative(outputOf(of), module))}, import.meta.url)`;
    const started = (whole: string, path: string): string => {
      const name = names.get(join(dirname(module), path));
      return name === undefined ? whole : `new URL("./${name}.js", import.meta.URL)`;
    };
    return code
      .replaceAll(/new URL\("(\.\/[\w-]+\.js)", import\.meta\.url\)/g, started)
      .replaceAll("import.meta.url", `${url}.href`)
      .replaceAll("import.meta.URL", "import.meta.url");
  };
  return { name: "places", transform };
}

/** Replaces `node:http` by a module without `fetch`, which is unused and costs a fifth of a start. Omits exports behind getters. */
function httpWithoutFetch(): Plugin {
  const id = "\0node:http";
  const isValue = ({ get }: { readonly get?: unknown }): boolean => get === undefined;
  const properties = Object.entries(Object.getOwnPropertyDescriptors(http));
  const names = properties.filter(([, property]) => isValue(property)).map(([name]) => name);
  const code = [
    'const http = process.getBuiltinModule("node:http");',
    ...names.map((name) => `export const ${name} = http.${name};`),
    "export default http;",
  ].join("\n");
  return {
    name: "http-without-fetch",
    resolveId: (source, _importer, { kind }) =>
      source === "node:http" && kind === "import-statement" ? id : undefined,
    load: (requested) => (requested === id ? code : undefined),
  };
}

/** Finds the ES modules of rxjs. Its CommonJS form, the default in Node.js, cannot be tree-shaken: 280 kB and 2.5 MB of memory. */
function findModules(library: string): string {
  const folder = join(root, "node_modules", library);
  const { es2015 } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    readonly es2015: string;
  };
  return join(folder, es2015);
}

/** Throws if a program contains modules behind `testing` entries, which are fakes and extensions for tests. */
function refuseTesting(modules: readonly string[]): void {
  const found = modules.filter((path) => /\/src\/(?:[^/]+\/)*testing(?:\/|\.ts$)/.test(path));
  if (found.length > 0) throw new Error(`a program contains test code: ${found.join(", ")}`);
}

/** Writes a program's files. Returns their names. */
async function write(of: Program): Promise<readonly string[]> {
  const input = Object.entries(of.entries).map(([name, source]) => [name, join(packages, source)]);
  const built = await rolldown({
    input: Object.fromEntries(input) as Readonly<Record<string, string>>,
    platform: "node",
    resolve: {
      conditionNames: ["@patchbay/source", "node", "default"],
      alias: { rxjs: findModules("rxjs") },
    },
    plugins: [places(of), httpWithoutFetch()],
  });
  const { output } = await built.write({
    dir: outputOf(of),
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    comments: { jsdoc: false },
  });
  await built.close();
  refuseTesting(output.flatMap((file) => (file.type === "chunk" ? file.moduleIds : [])));
  return output.map(({ fileName }) => fileName);
}

/** File with the names of the last bundle's files. It is written last. */
const LIST = "files.json";
/** File beside the command line's bundle with the hash of all programs. */
const BUILD = "build.json";

/** Returns the time of the last compilation or library installation, in milliseconds since 1970. */
function changedAtMs(): number {
  const built = globSync(["*/dist/.tsbuildinfo", "*/*/dist/.tsbuildinfo"], { cwd: packages });
  const files = [...built.map((path) => join(packages, path)), join(root, "package-lock.json")];
  return Math.max(...[...files, import.meta.filename].map((path) => statSync(path).mtimeMs));
}

/** Returns the files of the previous bundle if nothing has changed since. */
function findWritten(of: Program): readonly string[] | undefined {
  const list = join(outputOf(of), LIST);
  if (!existsSync(list) || statSync(list).mtimeMs < changedAtMs()) return undefined;
  return readList(of);
}

function readList(of: Program): readonly string[] {
  const list = join(outputOf(of), LIST);
  return existsSync(list) ? (JSON.parse(readFileSync(list, "utf8")) as readonly string[]) : [];
}

/** Updates the bundle. Retains the previous bundle, whose files running programs may still read, unless `alone` is set. */
async function update(of: Program, alone: boolean): Promise<void> {
  const before = readList(of);
  const found = findWritten(of);
  const names = found ?? (await write(of));
  const output = outputOf(of);
  if (found === undefined || alone) {
    const retained = new Set([...names, ...(alone ? [] : before)]);
    for (const name of readdirSync(output)) {
      if (!retained.has(name) && name !== BUILD) rmSync(join(output, name));
    }
    writeFileSync(join(output, LIST), JSON.stringify(names));
  }
}

/** Writes the hash of all programs and native addons. A machine restarts the services of another build. */
function writeBuild(): void {
  const hash = createHash("sha256");
  const bundles = PROGRAMS.flatMap((each) =>
    readList(each).map((name) => join(outputOf(each), name)),
  );
  const addons = globSync("*/*/build/*.node", { cwd: packages });
  for (const path of [...bundles, ...addons.map((addon) => join(packages, addon))].toSorted()) {
    hash.update(`${relative(packages, path)}\0`).update(readFileSync(path));
  }
  const text = `${JSON.stringify({ build: hash.digest("hex").slice(0, 16) })}\n`;
  const file = join(packages, "cli/dist/bundle", BUILD);
  if (!existsSync(file) || readFileSync(file, "utf8") !== text) writeFileSync(file, text);
}

for (const each of PROGRAMS) await update(each, process.argv[2] === "alone");
writeBuild();
