// SPDX-License-Identifier: Apache-2.0
// Commands of the users' and operators' pages, read from the pages and run on the machine.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { findBlocks, findStatements, listPages, type Block } from "../../docs/code-blocks.ts";
import { readText } from "../../docs/documents.ts";
import { BUILTINS, findListed, ON_MACHINE } from "../../docs/listed-commands.ts";
import { parseShell } from "../../docs/shell.ts";
import { CHANGE_MS, expectGone, expectReady, machine } from "../machine.ts";

const { root: ROOT, dataDir } = inject("machine");
const ADD_A_NIC = "docs/add-a-nic.md";
const blocks = findBlocks({ path: ADD_A_NIC, text: readText(ADD_A_NIC) });
const DEFAULT_DIR = "/var/lib/patchbay";
const DEFAULT_SERVICES = "10.96.0.";

/** The current directory of the commands. */
const directory = mkdtempSync(join(tmpdir(), "patchbay-documents-"));
const { serviceSubnet } = JSON.parse(readFileSync(join(dataDir, "standalone.json"), "utf8")) as {
  readonly serviceSubnet: string;
};

/** Runs a text of the pages, which name the default directory and Service network, and SERVICE for any service. */
function runShell(text: string, exports = ""): string {
  const services = serviceSubnet.replace(/0\/\d+$/, "");
  const here = `${exports}${text}`
    .replaceAll(DEFAULT_DIR, dataDir)
    .replaceAll(DEFAULT_SERVICES, services)
    .replaceAll("SERVICE", "virt-handler");
  // grep ends with 1 if no line matches, the doctor if it finds a fault.
  const end = /^(grep|patchbay doctor)\b/.test(text) ? " || test $? = 1" : "";
  const start = `export PATH=${directory}/bin:$PATH; cd ${directory}`;
  const { code, stdout, stderr } = machine.try(["bash", "-euc", `${start}\n{ ${here}\n}${end}`]);
  if (code !== 0) throw new Error(`${here}: exit code ${String(code)}: ${stderr}${stdout}`);
  return stdout;
}

beforeAll(() => {
  for (const name of ["crds", "docs", "packages"])
    symlinkSync(join(ROOT, name), join(directory, name));
  execFileSync("mkdir", [join(directory, "bin")]);
  const program = join(ROOT, "node_modules/.bin/patchbay");
  const script = `#!/bin/sh\nexec ${program} --data-dir ${dataDir} "$@"\n`;
  writeFileSync(join(directory, "bin/patchbay"), script, { mode: 0o755 });
});

afterAll(() => {
  machine.deleteIfPresent("vm", "demo");
  machine.deleteIfPresent("vmi", "lone");
  machine.deleteIfPresent("pod", "plain");
  machine.kubectl("delete", "net-attach-def", "green", "--ignore-not-found");
  rmSync(directory, { recursive: true });
});

async function expectPhase(vmi: string, ...ready: readonly string[]): Promise<void> {
  for (const name of ready) await expectReady(vmi, name);
}

async function expectLinks(isExpected: boolean): Promise<void> {
  const hasLink = (): boolean =>
    machine.kubectl("exec", "plain", "--", "ls", "/sys/class/net").includes("net1");
  await eventually(() => hasLink() === isExpected, { withinMs: CHANGE_MS });
}

/** Creates the pod that the page names. */
async function runPod(): Promise<void> {
  const [image, command] = [names.LAUNCHER_IMAGE, ["sleep", "600"]];
  machine.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "plain" },
    spec: {
      terminationGracePeriodSeconds: 1,
      securityContext: { runAsUser: 107 },
      containers: [{ name: "main", image, command }],
    },
  });
  await eventually(() => machine.findPodPhase("plain") === "Running", { withinMs: CHANGE_MS });
}

function applyChange(text: string, ...flags: readonly string[]): void {
  execFileSync("git", ["apply", ...flags], { cwd: directory, input: `${text}\n` });
}

async function revertCommit(): Promise<void> {
  applyChange(blocks.find(({ kind }) => kind === "diff")?.text ?? "", "-R");
  runShell("kubectl apply -k fleet");
  await expectGone("demo", "from-git");
}

/** Waits for the results of the last statements of each section. */
const EXPECTED: Readonly<Record<string, readonly (() => Promise<void> | void)[]>> = {
  "Add a NIC to a running VM": [() => machine.booted("demo")],
  "By the command": [() => expectPhase("demo", "by-command")],
  "By a patch of the VM": [() => expectPhase("demo", "by-patch")],
  "By the subresource": [() => expectPhase("demo", "by-subresource")],
  "A VMI without a VM": [
    () => machine.booted("lone"),
    () => expectPhase("lone", "by-patch"),
    () => expectPhase("lone", "by-command"),
  ],
  "See the result": [],
  Unplug: [() => expectGone("demo", "by-command"), () => expectGone("demo", "by-patch")],
  "By GitOps": [
    () => undefined,
    () => expectGone("demo", "by-subresource"),
    async () => {
      await expectPhase("demo", "from-git");
      await revertCommit();
    },
  ],
  "When the VM is created": [],
  "A NIC for an ordinary pod": [() => expectLinks(true), () => expectLinks(false)],
  "Clean up": [],
};

/** Statements of a shell block, or the whole change of files. */
function listTexts({ kind, text }: Block): readonly Pick<Block, "kind" | "text">[] {
  if (kind === "diff") return [{ kind, text }];
  return parseShell(text).map((statement) => ({ kind, text: statement.text }));
}

/** Runs the blocks of a section in order, and checks the results of its last statements. */
async function expectSection(heading: string): Promise<void> {
  const checks = [...(EXPECTED[heading] ?? [])];
  const texts = blocks.filter((block) => block.heading === heading).flatMap(listTexts);
  let left = texts.filter(({ kind }) => kind === "shell").length;
  for (const { kind, text } of texts) {
    if (kind === "diff") {
      applyChange(text);
      continue;
    }
    runShell(text);
    if (left <= checks.length) await checks.shift()?.();
    left -= 1;
  }
}

describe("the page about ways to add a NIC", () => {
  const headings = [...new Set(blocks.map(({ heading }) => heading))];

  test("each section with commands has its expectations", () => {
    expect(Object.keys(EXPECTED)).toEqual(headings);
  });

  test.each(headings)("%s", async (heading) => {
    if (heading === "A NIC for an ordinary pod") await runPod();
    await expectSection(heading);
  });
});

describe("commands for the machine's files, containers and rules", () => {
  const isBuiltin = ([program = ""]: readonly string[]): boolean => BUILTINS.includes(program);
  const shown = findStatements(listPages()).filter(
    ({ document, commands }) =>
      document !== ADD_A_NIC &&
      !commands.every(isBuiltin) &&
      commands.every((command) => findListed(command)?.runBy === ON_MACHINE),
  );

  beforeAll(() => {
    runShell("kubectl get --raw /backup >objects.backup");
  });

  test.each(shown)("$document:$line $text", ({ text, exports }) => {
    expect(() => runShell(text, exports)).not.toThrow();
  });
});

describe("pages whose commands only show", () => {
  /** The example's names are those of the shared machine. */
  const PAGES = /^docs\/(troubleshooting|capacity|security-model|configuration)\.md$/;
  const SHOWS =
    /^(kubectl (-n \S+ )?(get|describe)|patchbay (get|explain|history|doctor|image list|version|migrate --help)) /;
  const shown = findStatements(listPages()).filter(
    ({ document, text }) => PAGES.test(document) && SHOWS.test(text) && !/[A-Z]{3,}/.test(text),
  );

  test.each(shown)("$document:$line $text", ({ text }) => {
    expect(() => runShell(text)).not.toThrow();
  });
});
