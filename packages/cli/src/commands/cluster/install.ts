// SPDX-License-Identifier: Apache-2.0
// Commands install and uninstall.
import type { ObjectResult, Removal } from "@patchbay/manifests";
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { ObjectKey } from "@patchbay/core/interfaces";
import type { KubeClient } from "@patchbay/kube";
import type { Command, Context, FlagSpec } from "../../command.ts";
import type { WantedInstallation } from "../../doctor/before-install.ts";
import { toFindingJson, type Finding } from "../../doctor/finding.ts";
import { hasFlag, numberOption, textOption, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { escapeLine } from "../../print/safe.ts";
import type { Session } from "../../session.ts";

/** Source: net-agent's flag `--mode`. */
const NET_AGENT_MODES = ["alone", "multus", "multus-dynamic"];

/** Returns only the settings for which the user passed a flag, because all others must stay unchanged. */
function readSettings(input: Input) {
  const image = textOption(input, "image");
  const launcherImage = textOption(input, "launcherImage");
  const sidecarShimImage = textOption(input, "sidecarShimImage");
  const kubeletRootDir = textOption(input, "kubeletRootDir");
  const mode = textOption(input, "mode");
  const { dataplaneGroup, podCreation } = input.options;
  return {
    ...(image !== undefined && { image }),
    ...(launcherImage !== undefined && { launcherImage }),
    ...(sidecarShimImage !== undefined && { sidecarShimImage }),
    ...(kubeletRootDir !== undefined && { kubeletRootDir }),
    ...(mode !== undefined && { mode }),
    ...(typeof dataplaneGroup === "number" && { dataplaneGroup }),
    ...(typeof podCreation === "boolean" && { podCreation }),
  };
}

/** Differences of an object that the table shows, and their maximum length. JSON contains all of them. */
const DIFFERENCES_SHOWN = 40;
const DIFFERENCE_SHOWN_LENGTH = 300;

function printDifferences(differences: readonly string[]): string {
  const lines = differences.slice(0, DIFFERENCES_SHOWN).map((difference) => {
    const isLong = difference.length > DIFFERENCE_SHOWN_LENGTH;
    return `  ${difference.slice(0, DIFFERENCE_SHOWN_LENGTH)}${isLong ? "…" : ""}\n`;
  });
  const more = differences.length - lines.length;
  return more > 0 ? `${lines.join("")}  … ${String(more)} more, with -o json\n` : lines.join("");
}

function printObject(result: ObjectResult, dryRun: boolean): string {
  const { name, change, isChecked, differences = [] } = result;
  const text = dryRun && change !== "left alone" ? `would be ${change}` : change;
  const unchecked = isChecked ? "" : " (not checked: its namespace does not exist yet)";
  return `${name}: ${text}${unchecked}\n${printDifferences(differences)}`;
}

interface ObjectCondition<T extends KubeObject> {
  readonly type: ResourceType<T>;
  readonly key: ObjectKey;
  readonly isReached: (object: T | undefined) => boolean;
}

/** Waits until the object in the cluster meets the condition. Rejects when the user presses Ctrl-C. */
async function waitForObject<T extends KubeObject>(
  { client }: Session,
  { signal, err }: Context,
  { type, key, isReached }: ObjectCondition<T>,
): Promise<void> {
  const { createCache, waitForCaches } = await import("@patchbay/kube");
  const { createWarningLogger } = await import("../../session.ts");
  const finished = new AbortController();
  const ended = AbortSignal.any([signal, finished.signal]);
  const selection = { fieldSelector: `metadata.name=${key.name}` };
  const cache = createCache(client.reflect(type, selection), { logger: createWarningLogger(err) });
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const check = (): void => {
    if (signal.aborted || isReached(cache.find(key))) resolve(undefined);
  };
  signal.addEventListener("abort", check, { once: true });
  cache.start(ended);
  await waitForCaches([cache], ended);
  cache.onChange(check);
  check();
  await promise;
  signal.removeEventListener("abort", check);
  finished.abort();
  signal.throwIfAborted();
}

async function unlessForbidden<T>(request: Promise<T>, fallback: T): Promise<T> {
  const { isAppError } = await import("@patchbay/base");
  try {
    return await request;
  } catch (error) {
    if (isAppError(error, "KUBE_FORBIDDEN")) return fallback;
    throw error;
  }
}

/** Reads the manifests with the settings of the flags, of an existing installation, and of this cluster's version. */
export async function readWanted(client: KubeClient, input: Input): Promise<WantedInstallation> {
  const manifests = await import("@patchbay/manifests");
  const { createFiles } = await import("@patchbay/os");
  const folder = textOption(input, "only") === undefined ? "base" : "net-agent-only";
  const all = manifests.parseManifests(await manifests.readManifests(createFiles(), folder));
  const existing = await unlessForbidden(manifests.findSettings(client.store, all), {});
  const version = client.requestRaw({ method: "GET", path: "/version" }).then(({ text }) => text);
  const wanted = manifests.withSettings(all, { ...existing, ...readSettings(input) });
  const objects = manifests.forServerVersion(wanted, await unlessForbidden(version, ""));
  return { objects, settings: manifests.parseSettings(objects.filter(manifests.isWorkload)) };
}

interface InstallReport {
  readonly dryRun: boolean;
  readonly checks: readonly Finding[];
  readonly objects: readonly ObjectResult[];
  /** Findings of the doctor after the installation; unset if it did not run. */
  readonly findings?: readonly Finding[];
}

async function printReport(context: Context, report: InstallReport): Promise<void> {
  const { printFindings } = await import("../../print/doctor-report.ts");
  const { dryRun, checks, objects, findings } = report;
  await printResult(context, {
    table: () =>
      objects.map((outcome) => printObject(outcome, dryRun)).join("") +
      printFindings(findings ?? []),
    data: {
      dryRun,
      checks: checks.map(toFindingJson),
      objects,
      ...(findings !== undefined && { findings: findings.map(toFindingJson) }),
    },
    names: objects.map(({ name }) => name),
  });
}

async function applyWanted(
  session: Session,
  context: Context,
  { objects, dryRun }: { readonly objects: readonly KubeObject[]; readonly dryRun: boolean },
): Promise<readonly ObjectResult[]> {
  const manifests = await import("@patchbay/manifests");
  const { store } = session.client;
  const outcomes: ObjectResult[] = [];
  await manifests.install(store, { objects, dryRun, report: (outcome) => outcomes.push(outcome) });
  const { DEFINITIONS: type, isEstablished: isReached } = manifests;
  const created = await manifests.createKubeVirt(store, objects, {
    dryRun,
    untilServed: (key) => waitForObject(session, context, { type, key, isReached }),
  });
  return created === undefined ? outcomes : [...outcomes, created];
}

interface ClusterChecks {
  readonly checks: readonly Finding[];
  readonly planned: readonly ObjectResult[];
}

async function checkCluster(
  context: Context,
  session: Session,
  wanted: WantedInstallation,
): Promise<ClusterChecks> {
  const { collectInstallFacts } = await import("../../doctor/before-install.ts");
  const { judgeBeforeInstall } = await import("../../doctor/checks/before-install.ts");
  const { printFindings } = await import("../../print/doctor-report.ts");
  const { client, isPodAccount = false } = session;
  const facts = await collectInstallFacts(client, wanted, isPodAccount);
  const checks = judgeBeforeInstall(facts);
  const unclear = checks.filter(({ verdict }) => verdict !== "ok");
  context.err.write(
    `checked the cluster: ${String(checks.length - unclear.length)} of ${String(checks.length)} checks are ok\n`,
  );
  context.err.write(printFindings(unclear));
  return { checks, planned: "value" in facts.plan ? facts.plan.value.outcomes : [] };
}

const ROLLOUT_INTERVAL_MS = 2_000;
/** Time after the rollout in which findings may still disappear, because the API server probes virt-api only now and then. */
const SETTLE_MS = 60_000;
const DEFAULT_TIMEOUT = "10m";
const DEFAULT_TIMEOUT_MS = 600_000;

async function readRollout({ store }: Pick<KubeClient, "store">) {
  const { DAEMON_SETS, DEPLOYMENTS, names, PODS } = await import("@patchbay/api");
  const labelSelector = `${names.PART_OF_LABEL}=${names.PRODUCT}`;
  const selection = { namespace: names.SERVICES_NAMESPACE, labelSelector };
  return {
    deployments: (await store.list(DEPLOYMENTS, selection)).items,
    daemonSets: (await store.list(DAEMON_SETS, selection)).items,
    pods: (await store.list(PODS, selection)).items,
  };
}

/** Waits until all pods are ready, and prints the progress. @throws AppError with INSTALL_NOT_READY at the deadline */
export async function waitForRollout(
  { err, signal }: Pick<Context, "err" | "signal">,
  { clock, client }: Pick<Session, "clock"> & { readonly client: Pick<KubeClient, "store"> },
  timeoutMs: number,
): Promise<void> {
  const { AppError } = await import("@patchbay/base");
  const { judgeRollout } = await import("../../doctor/checks/components.ts");
  const deadlineMs = clock.monotonicMs() + timeoutMs;
  let printed: readonly string[] = [];
  for (;;) {
    const { lines, pending } = judgeRollout(await readRollout(client));
    for (const line of lines.filter((each) => !printed.includes(each)))
      err.write(`${escapeLine(line)}\n`);
    printed = lines;
    if (pending.length === 0) return;
    if (clock.monotonicMs() >= deadlineMs) {
      const seconds = Math.round(timeoutMs / 1000);
      throw new AppError("INSTALL_NOT_READY", { seconds, reason: pending.join("; ") });
    }
    await clock.sleep(ROLLOUT_INTERVAL_MS, signal);
  }
}

async function examineInstalled(context: Context, session: Session): Promise<readonly Finding[]> {
  const { collectFacts } = await import("../../doctor/collect.ts");
  const { judgeInstallation } = await import("../../doctor/judge.ts");
  const { clock } = session;
  const deadlineMs = clock.monotonicMs() + SETTLE_MS;
  for (;;) {
    const findings = judgeInstallation(await collectFacts(context, session));
    const isOver = clock.monotonicMs() >= deadlineMs;
    if (isOver || findings.every(({ verdict }) => verdict !== "wrong")) return findings;
    await clock.sleep(ROLLOUT_INTERVAL_MS, context.signal);
  }
}

/** Waits until the installation works. Returns the doctor's findings; undefined if there is nothing to wait for. */
async function finishInstall(
  context: Context,
  session: Session,
  input: Input,
): Promise<readonly Finding[] | undefined> {
  const { NODES } = await import("@patchbay/api");
  if (input.options["wait"] === false) return undefined;
  const nodes = await unlessForbidden(session.client.store.list(NODES), undefined);
  if (nodes?.items.length === 0) {
    context.err.write("there is no node yet; when there is one, check with: patchbay doctor\n");
    return undefined;
  }
  const timeoutMs = numberOption(input, "timeout", DEFAULT_TIMEOUT_MS);
  await waitForRollout(context, session, timeoutMs);
  return examineInstalled(context, session);
}

function countWrong(findings: readonly Finding[]): number {
  return findings.filter(({ verdict }) => verdict === "wrong").length;
}

async function runInstall(context: Context, input: Input): Promise<void> {
  const { AppError } = await import("@patchbay/base");
  const { withSession } = await import("../../session.ts");
  const dryRun = hasFlag(input, "dryRun");
  await withSession(context, async (session) => {
    const wanted = await readWanted(session.client, input);
    const { objects } = wanted;
    const skipsChecks = hasFlag(input, "skipChecks");
    const { checks, planned } = skipsChecks
      ? { checks: [], planned: [] }
      : await checkCluster(context, session, wanted);
    const failedChecks = countWrong(checks);
    if (failedChecks > 0) {
      await printReport(context, { dryRun, checks, objects: dryRun ? planned : [] });
      throw new AppError("INSTALL_CHECKS_FAILED", { wrong: failedChecks, all: checks.length });
    }
    const outcomes = await applyWanted(session, context, { objects, dryRun });
    const findings = dryRun ? undefined : await finishInstall(context, session, input);
    const report = { dryRun, checks, objects: outcomes };
    await printReport(context, findings === undefined ? report : { ...report, findings });
    const wrong = countWrong(findings ?? []);
    if (wrong > 0) throw new AppError("DOCTOR_FOUND", { wrong, all: findings?.length ?? 0 });
  });
}

/** Flags that select what is installed, which `doctor --before-install` has too. */
export const TARGET_FLAGS: readonly FlagSpec[] = [
  {
    flags: "--only <component>",
    description: "install only this component, for example beside KubeVirt",
    choices: ["net-agent"],
    conflicts: ["launcherImage", "sidecarShimImage", "dataplaneGroup"],
  },
  {
    flags: "--mode <mode>",
    description: "what attaches networks beside net-agent (default: multus)",
    choices: NET_AGENT_MODES,
  },
  {
    flags: "--pod-creation",
    description:
      "make net-agent the CNI plugin of the nodes' container runtimes, so that it attaches all networks when pods are created, in place of Multus",
  },
];

export const install: Command = {
  name: "install",
  args: [],
  summary: "Install or upgrade Patchbay on a cluster; settings without a flag stay unchanged",
  flags: [
    ...TARGET_FLAGS,
    {
      flags: "--no-pod-creation",
      description:
        "undo --pod-creation: pods get their networks from Multus, or from net-agent shortly after they start",
    },
    { flags: "--image <reference>", description: "image of the services and agents" },
    { flags: "--launcher-image <reference>", description: "image of the launchers of VMs" },
    {
      flags: "--sidecar-shim-image <reference>",
      description: "image of hooks that name none, which runs their programs",
    },
    {
      flags: "--kubelet-root-dir <dir>",
      description: "root directory of the kubelets, their --root-dir (default: /var/lib/kubelet)",
      values: "directories",
    },
    {
      flags: "--dataplane-group <gid>",
      description: "group ID of vhost-user dataplanes that do not run as root (default: 0, root)",
      kind: "group",
    },
    {
      flags: "--dry-run",
      description: "only check the cluster, and show what would be created and changed",
    },
    {
      flags: "--skip-checks",
      description: "install even if the cluster would fail the checks of doctor --before-install",
    },
    {
      flags: "--no-wait",
      description: "do not wait until the installation works, and do not run the doctor",
    },
    {
      flags: "--timeout <duration>",
      description: "how long to wait until all pods are ready",
      kind: "duration",
      fallback: DEFAULT_TIMEOUT,
    },
  ],
  run: runInstall,
};

function printRemoval({ name, blockedReason: kept, isRemovable = false }: Removal): string {
  if (kept === undefined) return `${name}: deleted\n`;
  const nextStep = isRemovable ? "; --with-objects deletes them too" : "";
  return `${name}: kept, ${kept}${nextStep}\n`;
}

async function runUninstall(context: Context, input: Input): Promise<void> {
  const { prepareUninstall, uninstall: uninstallFrom } = await import("@patchbay/manifests");
  const { withSession } = await import("../../session.ts");
  if (hasFlag(input, "prepare")) {
    await withSession(context, ({ client }) => prepareUninstall(client.store));
    context.err.write("there are no virtual machines; now delete the objects\n");
    return;
  }
  const removals: Removal[] = [];
  await withSession(context, (session) =>
    uninstallFrom(session.client.store, {
      withObjects: hasFlag(input, "withObjects"),
      report: (removal) => {
        removals.push(removal);
      },
      waitUntilDeleted: (type, key) =>
        waitForObject(session, context, { type, key, isReached: (object) => object === undefined }),
    }),
  );
  await printResult(context, {
    table: () => removals.map(printRemoval).join(""),
    data: { objects: removals },
    names: removals.map(({ name }) => name),
  });
}

export const uninstall: Command = {
  name: "uninstall",
  args: [],
  summary: "Remove Patchbay from a cluster; refused while virtual machines exist",
  flags: [
    {
      flags: "--with-objects",
      description:
        "also delete kinds that still have objects, and those objects; networks always stay",
    },
    {
      flags: "--prepare",
      description:
        "only check that there are no virtual machines, and let net-agent leave the nodes' container runtimes; then Helm, for example, deletes the objects",
      conflicts: ["withObjects"],
    },
  ],
  run: runUninstall,
};
