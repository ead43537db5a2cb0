// SPDX-License-Identifier: Apache-2.0
// Renders docs/reference/: error codes and reasons from their tables, flags from the programs, rights from the
// manifests.
import { execFileSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { LIMIT_GROUPS, PROBLEMS_MAX, type LimitGroup } from "@patchbay/api/limits";
import { CATALOGUE, type ErrorEntry } from "@patchbay/base";
import { REASONS, type ReasonEntry } from "@patchbay/core/reasons";
import { format, type FormatConfig } from "oxfmt";
import { callPatchbay } from "../../packages/cli/src/testing/run-patchbay.ts";
import { readBase } from "../chart/base.ts";
import { listChartValues } from "../chart/chart.ts";
import { BENCH, STORIES } from "../../tests/contract/net-agent/third-party/table.ts";
import { renderFields } from "./fields.ts";
import { renderRights } from "./rights.ts";

const ROOT = join(import.meta.dirname, "../..");

const NOTE = "<!-- Generated; do not edit. Run: npm run gen -->\n\n";

/** Escapes HTML and column separators for a table cell. */
function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll("\n", " ");
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |\n`;
  return [head, head.map(() => "---"), ...rows].map(line).join("");
}

/** Rows about the retry rules of the error catalog. The numbers come from `minRetryDelayMs`, `StepBackoff` and the queue. */
const RETRIES: readonly (readonly string[])[] = [
  [
    "`backoff`",
    "a retry",
    "after 1 s, doubled to a minute; at once when its input changes",
    "after 0.1 s, doubled to a minute",
  ],
  [
    "`on-change`",
    "a change of an object that it depends on",
    "at once when that changes, otherwise every minute",
    "as the step",
  ],
  ["`never`", "another request or another specification", "as `on-change`", "as `on-change`"],
];

function renderErrors(): string {
  const entries: readonly (readonly [string, ErrorEntry])[] = Object.entries(CATALOGUE);
  const rows = entries
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, { summary, owner: who, retry, http }]) => {
      return [`\`${code}\``, cell(summary), who, retry, String(http)];
    });
  return [
    `# Error codes\n\n${NOTE}`,
    "Every error of Patchbay has one of these codes: in log lines, in the messages of the command line and, as text, in\n",
    "events and `status`. Codes are stable; messages are not. Each code is in the file of its area in\n",
    "`packages/common/base/src/errors/catalogue/`.\n\n",
    "- **owner** can fix the cause: the `user` who sent the request, the `environment` (machine, cluster, network), or\n",
    "  it is a `bug`.\n",
    "- **retry** is the rule by which the failed loop retries; it is the same in every service, without end (below).\n",
    "- **HTTP** is the status of virt-api's response when the error ends a request.\n\n",
    table(["retry", "helps", "a step that failed", "a pass that failed as a whole"], RETRIES),
    '\n"At once" is limited: a step that fails with another error each time waits as if its input had not changed',
    " ([ADR 0018](../adr/services/0018-pause-what-failed.md)).\n\n",
    table(["code", "message", "owner", "retry", "HTTP"], rows),
  ].join("");
}

/** A virtctl request, as tests/contract/virtctl sends it. */
interface VirtctlRow {
  readonly command: string;
  readonly until?: string;
  readonly method: string;
  readonly path: string;
  /** Upgrades the connection to a WebSocket. */
  readonly upgrade?: boolean;
  readonly body?: unknown;
  readonly state: string;
  readonly code: number;
  readonly message: string;
}

function renderVirtctl(): string {
  const text = readFileSync(
    join(ROOT, "packages/control-plane/virt-api/src/testing/virtctl.json"),
    "utf8",
  );
  const entries = JSON.parse(text) as readonly VirtctlRow[]; // a file of this repository, which its test validates
  const rows = entries.map(
    ({ command, until, method, path, upgrade, body, state, code, message }) => [
      `\`virtctl ${cell(command)}\`${until === undefined ? "" : ` (${until})`}`,
      `${upgrade === true ? "WebSocket" : method} \`${path}\``,
      body === undefined ? "" : `\`${cell(JSON.stringify(body))}\``,
      state,
      String(code),
      cell(message),
      code < 400 ? "0" : "1",
    ],
  );
  return [
    `# Responses to virtctl\n\n${NOTE}`,
    "Each request of KubeVirt's virtctl, v1.0 and the current version, with its response and virtctl's exit code. Paths are\n",
    "below `/apis/subresources.kubevirt.io/v1`, and `v1alpha3` alike; those that begin with `/` are of other groups. Without\n",
    "CDI no server has the paths of `cdi.kubevirt.io` and `upload.cdi.kubevirt.io`: standalone's API server responds with a\n",
    "message that names the missing feature, a cluster's with\n",
    "`the server could not find the requested resource (post datavolumes.cdi.kubevirt.io)`\n",
    "([ADR 0082](../../adr/kinds/0082-leave-cdis-groups-to-cdi.md)). A test sends each request through the API server to\n",
    "virt-api (`tests/contract/virtctl`). Commands that only read and write objects (`create`, `expose`, `credentials`) send\n",
    "no request to virt-api.\n\n",
    "The VM is: **none**, missing; **off**, `Halted`; **manual**, `Manual`, and **always**, `Always`, both without a VMI;\n",
    "**starting**, its VMI Scheduled; **running**, with an agent; **paused**; **stopping**, `Halted` with a VMI.\n\n",
    table(["command", "request", "body", "VM", "code", "message", "exit"], rows),
  ].join("");
}

const LIMIT_UNITS = {
  maxItems: "items",
  maxProperties: "entries",
  maxLength: "characters",
  maxBytes: "bytes",
  maximum: "",
} as const;

function renderLimitGroup({ title, limits, defaults }: LimitGroup): string {
  const rows = limits.map(({ field, keyword, max, reason, source }) => [
    `\`${field}\``,
    [max.toLocaleString("en"), LIMIT_UNITS[keyword]].join(" ").trim(),
    cell(reason),
    cell(source),
  ]);
  const others =
    defaults === undefined
      ? ""
      : [
          `Each other list: ${defaults.maxItems.toLocaleString("en")} items; `,
          `each other map: ${defaults.maxProperties.toLocaleString("en")} entries; `,
          `each other text: ${defaults.maxLength.toLocaleString("en")} characters.\n\n`,
        ].join("");
  const rendered =
    rows.length === 0 ? "" : `${table(["field", "maximum", "reason", "source"], rows)}\n`;
  return [`## ${title}\n\n`, rendered, others].join("");
}

function renderLimits(): string {
  return [
    `# Limits\n\n${NOTE}`,
    "Maximum sizes of what users write. They are checked before every other rule: an object beyond a limit is refused\n",
    "with one cause, the first that is found, and nothing else is computed. virt-api and the schemas of `crds/` apply them\n",
    "to KubeVirt's kinds and to networks; a standalone machine's API server applies all of them, also to pods and Services.\n",
    "The kinds of administrators (without a namespace, KubeVirt, MigrationPolicy), the status of objects and the writes of\n",
    `Patchbay's own services are not limited. The refusal of an object names at most ${String(PROBLEMS_MAX)} causes.\n\n`,
    "An object that was stored before its limit existed remains. It can be deleted, and its metadata can be changed.\n\n",
    "The numbers are in `packages/control-plane/api/src/limits.ts`. Limits of connections, requests and shares of a\n",
    "machine are not in this table.\n\n",
    ...LIMIT_GROUPS.map(renderLimitGroup),
  ].join("");
}

function renderReasons(): string {
  const entries: readonly (readonly [string, ReasonEntry])[] = Object.entries(REASONS);
  const rows = entries.map(([reason, { phases, meaning, owner, from, event }]) => {
    return [phases, `\`${reason}\``, cell(meaning), cell(owner), from, event];
  });
  return [
    `# Reasons of an iface\n\n${NOTE}`,
    "Why an iface waits: `status.interfaces[].hotplug.reason` of a VMI, and partly `status.blockedReason` and the pod's\n",
    "annotation `patchbay.io/attachment-errors`. Reasons are stable; the message beside them is for people, and contains\n",
    "the next step. Without a reason the next step is in progress. [phases.md](phases.md) describes retries. The table is\n",
    "`packages/control-plane/core/src/reasons/table.ts`.\n\n",
    "- **owner** can fix the cause, or acts next.\n",
    "- **event** is the type of the event with that reason, recorded once on the VM, or else on the VMI.\n\n",
    table(["phase", "reason", "meaning", "owner", "from", "event"], rows),
  ].join("");
}

/** Replaces defaults that differ between machines. */
function withoutMachine(text: string): string {
  return text.replaceAll(`"${hostname()}"`, "the host's name").replaceAll(`${ROOT}/`, "");
}

type HelpRow = readonly [flags: string, meaning: string];

/** Parses one section of commander's help. Joins wrapped lines. */
function parseSection(help: string, title: string): readonly HelpRow[] {
  const section = help.split(`\n${title}:\n`)[1]?.split("\n\n")[0] ?? "";
  const rows: [string, string][] = [];
  for (const line of section.split("\n")) {
    const [flags = "", ...meaning] = line.trim().split(/ {2,}/);
    if (line.startsWith("  -")) rows.push([flags, meaning.join("  ")]);
    else rows.at(-1)?.splice(1, 1, `${rows.at(-1)?.[1] ?? ""} ${line.trim()}`.trim());
  }
  return rows
    .filter(([flags]) => !flags.startsWith("-h,"))
    .map(([flags, meaning]) => [flags, withoutMachine(meaning)]);
}

function help(main: string): string {
  const argv = ["--conditions=@patchbay/source", main, "--help"];
  // Runs the programs one after the other, because all of them load the same sources.
  const env = { ...process.env, NODE_COMPILE_CACHE: join(ROOT, ".cache/compiled") };
  return execFileSync(process.execPath, argv, { cwd: ROOT, env, encoding: "utf8" });
}

/** Returns the text between the usage line and the first section. */
function descriptionOf(text: string): string {
  return (text.split("\n\n")[1] ?? "").replaceAll("\n", " ");
}

function flagsTable(rows: readonly HelpRow[]): string {
  if (rows.length === 0) return "No flags of its own.\n\n";
  const cells = rows.map(([flags, meaning]) => [`\`${flags}\``, cell(meaning)]);
  return `${table(["flag", "meaning"], cells)}\n`;
}

interface Program {
  readonly name: string;
  readonly main: string;
}

/** Lists the services: packages that have an executable and a `main.ts`. */
function listServices(): readonly Program[] {
  return globSync("packages/*/*/bin/*", { cwd: ROOT })
    .map((program) => ({
      name: basename(program),
      main: join(dirname(program), "../src/main.ts"),
    }))
    .filter(({ main }) => existsSync(join(ROOT, main)))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function renderService({ name, main }: Program): string {
  const text = help(main);
  return `## ${name}\n\n${descriptionOf(text)}\n\n${flagsTable(parseSection(text, "Options"))}`;
}

/** Renders the environment variables that the first comment of the script lists. */
function renderLauncher(): string {
  const script = readFileSync(
    join(ROOT, "packages/control-plane/virt-launcher/bin/virt-launcher"),
    "utf8",
  );
  const rows = [...script.matchAll(/^# ([A-Z][A-Z_]+) {2,}(\S.*)$/gm)].map(([, name, meaning]) => [
    `\`${name ?? ""}\``,
    cell(meaning ?? ""),
  ]);
  return [
    "## virt-launcher\n\n",
    "PID 1 of a launcher pod. It takes no flags; its environment is:\n\n",
    `${table(["variable", "meaning"], rows)}\n`,
  ].join("");
}

/** Returns the subcommands that the help lists. */
function commandsOf(text: string): readonly string[] {
  const section = text.split("\nCommands:\n")[1]?.split("\n\n")[0] ?? "";
  return [...section.matchAll(/^ {2}([a-z]\S*)/gm)]
    .map(([, name]) => (name ?? "").split("|")[0] ?? "")
    .filter((name) => name !== "help");
}

/** Runs `patchbay WORDS --help` in this process, which is faster than one process each. */
async function helpOf(words: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await callPatchbay([...words, "--help"]);
  if (exitCode !== 0) throw new Error(stderr);
  return stdout;
}

async function renderCommands(words: readonly string[], inner: readonly string[]): Promise<string> {
  const rendered = inner.map((word) => renderCommand([...words, word]));
  return (await Promise.all(rendered)).join("");
}

async function renderCommand(words: readonly string[]): Promise<string> {
  const text = await helpOf(words);
  const inner = commandsOf(text);
  if (inner.length > 0) return renderCommands(words, inner);
  const usage = (text.split("\n")[0] ?? "").replace("Usage: ", "").replace(" [options]", "");
  const flags = flagsTable(parseSection(text, "Options"));
  return `### \`${usage}\`\n\n${descriptionOf(text)}.\n\n${flags}`;
}

async function renderCommandLine(): Promise<string> {
  const shared = parseSection(await helpOf(["up"]), "Global Options");
  const commands = await renderCommands([], commandsOf(await helpOf([])));
  return [
    "## patchbay\n\n",
    "The command line; also `kubectl patchbay` where `kubectl-patchbay` is in the path. Every command takes:\n\n",
    flagsTable(shared),
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 conflict, 5 unreachable, 130 interrupted.\n\n",
    commands,
  ].join("");
}

async function renderConfig(): Promise<string> {
  return [
    `# Flags of the executables\n\n${NOTE}`,
    "The text of each program's `--help`. Services exit with 0 after SIGTERM, 1 after a failure and 2 on wrong\n",
    "usage; they log JSON lines to standard error and print one line that begins with `ready` to standard output.\n\n",
    ...listServices().map(renderService),
    renderLauncher(),
    await renderCommandLine(),
  ].join("");
}

/** Formats the pages like `npm run format`. */
async function formatPages(
  pages: Readonly<Record<string, string>>,
): Promise<ReadonlyMap<string, string>> {
  const options = JSON.parse(readFileSync(join(ROOT, ".oxfmtrc.json"), "utf8")) as FormatConfig;
  const formatPage = async ([name, text]: [string, string]): Promise<[string, string]> => {
    const { code, errors } = await format(name, text, options);
    if (errors.length > 0) throw new Error(`${name}: ${JSON.stringify(errors)}`);
    return [name, code];
  };
  return new Map(await Promise.all(Object.entries(pages).map(formatPage)));
}

/** Replaces the text between the page's markers; the rest of the page is written by hand. */
function renderNetworks(): string {
  const text = readFileSync(join(ROOT, "docs/reference/networks.md"), "utf8");
  const [before = "", , after] = text.split(
    /<!-- (?:bench: made by npm run gen|end of bench) -->\n/,
  );
  if (after === undefined) throw new Error("docs/reference/networks.md has no place for the bench");
  const nameOf = ({ network }: { readonly network: string }): string => `\`${network}\``;
  const networks = BENCH.map((row) => [nameOf(row), row.behavior, row.projects, row.source]);
  const outcomes = BENCH.map((row) => [nameOf(row), ...STORIES.map((story) => row.want[story])]);
  return [
    before,
    "<!-- bench: made by npm run gen -->\n\n",
    table(["network", "behavior", "as in", "source"], networks),
    "\n",
    table(["network", ...STORIES], outcomes),
    "\n<!-- end of bench -->\n",
    after,
  ].join("");
}

/** Renders a value's type or the texts that its schema allows. */
function typeOf({ type, enum: choices }: Readonly<Record<string, unknown>>): string {
  if (!Array.isArray(choices)) return String(type);
  return choices.map((choice) => `\`${String(choice)}\``).join(", ");
}

async function renderHelmValues(): Promise<string> {
  const rows = listChartValues(await readBase()).map((value) => [
    `\`${value.name}\``,
    typeOf(value.schema),
    `\`${cell(JSON.stringify(value.default))}\``,
    cell(value.description),
  ]);
  return [
    `# Values of the Helm chart\n\n${NOTE}`,
    "`helm install --set NAME=VALUE`, or a file for `--values`. The chart's schema rejects unknown names and values of another type.\n",
    "Helm merges maps such as `nodeSelector` with the default, field by field, and replaces lists. [helm.md](../helm.md) has examples.\n\n",
    table(["value", "type", "default", "meaning"], rows),
  ].join("");
}

export async function renderReference(): Promise<ReadonlyMap<string, string>> {
  const pages = {
    "errors.md": renderErrors(),
    "limits.md": renderLimits(),
    "reasons.md": renderReasons(),
    "config.md": await renderConfig(),
    "networks.md": renderNetworks(),
    "vm-fields.md": renderFields(NOTE),
    "rights.md": await renderRights(NOTE),
    "helm-values.md": await renderHelmValues(),
  };
  return formatPages(pages);
}

export async function renderApiReference(): Promise<ReadonlyMap<string, string>> {
  return formatPages({ "virtctl.md": renderVirtctl() });
}
