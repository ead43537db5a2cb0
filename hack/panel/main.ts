// SPDX-License-Identifier: Apache-2.0
// Builds the panel's page: scripts, one style sheet, and the licenses of the bundled libraries.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rolldown } from "rolldown";

process.umask(0o022); // The caller's umask must not hide files from other users.
process.umask(0o022); // The caller's umask must not hide files from other users.

const root = join(import.meta.dirname, "../..");
const source = join(root, "packages/panel/src");
const output = join(root, "packages/panel/dist/web");

/** Separate files, because the terminal and the screen are loaded on demand. */
const SCRIPTS = {
  panel: "view/main.tsx",
  console: "browser/console.ts",
  screen: "browser/screen.ts",
};
/** Libraries bundled in the scripts and the style sheet. */
const LIBRARIES = [
  "preact",
  "@xterm/xterm",
  "@xterm/addon-fit",
  "@novnc/novnc",
  "yaml",
  "typebox",
  "ipaddr.js",
  "@noble/hashes",
];
const LICENCE_FILES = ["LICENSE", "LICENSE.txt", "LICENSE.md", "license"];

async function bundle(name: string, entry: string): Promise<void> {
  const built = await rolldown({
    input: join(source, entry),
    platform: "browser",
    resolve: { conditionNames: ["@patchbay/source", "import", "browser", "default"] },
    transform: { target: "es2023" },
  });
  const file = join(output, `${name}.js`);
  await built.write({ file, format: "esm", minify: true, codeSplitting: false });
  await built.close();
}

function readLicence(library: string): string {
  for (const name of LICENCE_FILES) {
    try {
      return readFileSync(join(root, "node_modules", library, name), "utf8");
    } catch {
      continue; // the license file has another name
    }
  }
  throw new Error(`${library} has no licence file that is known here`);
}

function writeLicences(): void {
  const texts = LIBRARIES.map((library) => `${library}\n\n${readLicence(library)}`);
  writeFileSync(join(output, "licences.txt"), texts.join(`\n${"-".repeat(80)}\n\n`));
}

function writeStyles(): void {
  const parts = ["theme", "frame", "rack", "aside", "changes"].map((name) =>
    join(source, `style/${name}.css`),
  );
  const all = [join(root, "node_modules/@xterm/xterm/css/xterm.css"), ...parts];
  writeFileSync(
    join(output, "panel.css"),
    all.map((path) => readFileSync(path, "utf8")).join("\n"),
  );
}

mkdirSync(output, { recursive: true });
for (const [name, entry] of Object.entries(SCRIPTS)) await bundle(name, entry);
writeStyles();
writeLicences();
copyFileSync(join(source, "index.html"), join(output, "index.html"));
