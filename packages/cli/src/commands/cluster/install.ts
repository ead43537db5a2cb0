// SPDX-License-Identifier: Apache-2.0
// Commands install and uninstall.
import type { ObjectResult, Removal } from "@patchbay/manifests";
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { ObjectKey } from "@patchbay/core/interfaces";
import type { Command, Context } from "../../command.ts";
import { hasFlag, textOption, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
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

function printObject(result: ObjectResult, dryRun: boolean): string {
  const { name, change, isChecked, differences = [] } = result;
  const text = dryRun && change !== "left alone" ? `would be ${change}` : change;
  const unchecked = isChecked ? "" : " (not checked: its namespace does not exist yet)";
  const details = differences.map((difference) => `  ${difference}\n`).join("");
  return `${name}: ${text}${unchecked}\n${details}`;
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

async function runInstall(context: Context, input: Input): Promise<void> {
  const manifestsModule = await import("@patchbay/manifests");
  const { createFiles } = await import("@patchbay/os");
  const { withSession } = await import("../../session.ts");
  const dryRun = hasFlag(input, "dryRun");
  const folder = textOption(input, "only") === undefined ? "base" : "net-agent-only";
  const { parseManifests, readManifests } = manifestsModule;
  const manifests = parseManifests(await readManifests(createFiles(), folder));
  const outcomes: ObjectResult[] = [];
  await withSession(context, async (session) => {
    const { store } = session.client;
    const existing = await manifestsModule.findSettings(store, manifests);
    const version = await session.client.requestRaw({ method: "GET", path: "/version" });
    const wanted = manifestsModule.withSettings(manifests, { ...existing, ...readSettings(input) });
    const objects = manifestsModule.forServerVersion(wanted, version.text);
    await manifestsModule.install(store, {
      objects,
      dryRun,
      report: (outcome) => outcomes.push(outcome),
    });
    const { DEFINITIONS: type, isEstablished: isReached } = manifestsModule;
    const created = await manifestsModule.createKubeVirt(store, objects, {
      dryRun,
      untilServed: (key) => waitForObject(session, context, { type, key, isReached }),
    });
    if (created !== undefined) outcomes.push(created);
  });
  await printResult(context, {
    table: () => outcomes.map((outcome) => printObject(outcome, dryRun)).join(""),
    data: { dryRun, objects: outcomes },
    names: outcomes.map(({ name }) => name),
  });
}

export const install: Command = {
  name: "install",
  args: [],
  summary: "Install or upgrade Patchbay on a cluster; settings without a flag stay unchanged",
  flags: [
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
    { flags: "--dry-run", description: "only show what would be changed" },
  ],
  run: runInstall,
};

function printRemoval({ name, blockedReason: kept, isRemovable = false }: Removal): string {
  if (kept === undefined) return `${name}: deleted\n`;
  const nextStep = isRemovable ? "; --with-objects deletes them too" : "";
  return `${name}: kept, ${kept}${nextStep}\n`;
}

async function runUninstall(context: Context, input: Input): Promise<void> {
  const { uninstall: uninstallFrom } = await import("@patchbay/manifests");
  const { withSession } = await import("../../session.ts");
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

/** Removes Patchbay from a cluster. Succeeds if Patchbay is not installed. */
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
  ],
  run: runUninstall,
};
