// SPDX-License-Identifier: Apache-2.0
// How long one hotplug takes through the whole product, by phase, from the request to the guest's own line.
import { createHash } from "node:crypto";
import { join } from "node:path";
import {
  names,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type Pod,
  type VirtualMachineInstance,
} from "@patchbay/api";
import {
  createCache,
  createKubeClient,
  loadKubeConfig,
  type KubeClient,
  type StartableCache,
} from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually, type Machine } from "@patchbay/testing";
import { logLines, type LogLine } from "./component-log.ts";

const NAME = "bench";
const WAIT_MS = 60_000;

/** Milliseconds since the request was sent. */
export interface HotplugTimes {
  readonly putReturned: number;
  readonly annotation: number;
  readonly networkStatus: number;
  readonly attached: number;
  readonly libvirtReturned: number;
  readonly ready: number;
  readonly guestLine: number;
  /** Durations of the outside work in it: CNI ADD, links, libvirt attach. */
  readonly cniMs: number;
  readonly linksMs: number;
  readonly libvirtMs: number;
}

interface Watch {
  readonly client: KubeClient;
  readonly vmis: StartableCache<VirtualMachineInstance>;
  readonly pods: StartableCache<Pod>;
  close(): Promise<void>;
}

async function openWatch(machine: Machine): Promise<Watch> {
  const logger = createSilentLogger();
  const config = await loadKubeConfig({ kubeconfig: join(machine.dataDir, "kubeconfig") });
  const client = createKubeClient(config, { logger, clock: createClock() });
  const vmis = createCache(client.reflect(VIRTUAL_MACHINE_INSTANCES), { logger });
  const pods = createCache(client.reflect(PODS), { logger });
  const stop = new AbortController();
  vmis.start(stop.signal);
  pods.start(stop.signal);
  await Promise.all([vmis.synced(), pods.synced()]);
  const close = async (): Promise<void> => {
    stop.abort();
    await client.close();
  };
  return { client, vmis, pods, close };
}

/** Milliseconds at which each condition first held. */
function firstTimes<T>(
  onChange: (listener: () => void) => () => void,
  look: () => T | undefined,
  conditions: Readonly<Record<string, (value: T) => boolean>>,
): { readonly times: Map<string, number>; readonly stop: () => void } {
  const times = new Map<string, number>();
  const stop = onChange(() => {
    const value = look();
    if (value === undefined) return;
    for (const [name, holds] of Object.entries(conditions)) {
      if (!times.has(name) && holds(value)) times.set(name, performance.now());
    }
  });
  return { times, stop };
}

function annotationHas(pod: Pod, annotation: string, text: string): boolean {
  return pod.metadata.annotations?.[annotation]?.includes(text) === true;
}

async function unplug(machine: Machine, vmi: string): Promise<void> {
  machine.patchbay("removeinterface", vmi, "--name", NAME);
  await eventually(
    () => {
      const found = machine.findVm(vmi)?.spec.template.spec.networks ?? [];
      return !found.some((network) => network.name === NAME);
    },
    { withinMs: WAIT_MS },
  );
}

function durationOf(lines: readonly LogLine[], action: string): number {
  return lines.find((line) => line.action === action && line.iface === NAME)?.durationMs ?? 0;
}

/** One plug, which is undone afterwards. */
export async function measureHotplug(machine: Machine, vmi: string): Promise<HotplugTimes> {
  const watch = await openWatch(machine);
  const interfaceName = `pod${createHash("sha256").update(NAME).digest("hex").slice(0, 11)}`;
  const key = { namespace: "default", name: vmi };
  const podName = machine.findPod(vmi)?.metadata.name ?? "";
  const pod = firstTimes(
    (listener) => watch.pods.onChange(listener),
    () => watch.pods.find({ namespace: "default", name: podName }),
    {
      annotation: (value) => annotationHas(value, names.NETWORKS_ANNOTATION, interfaceName),
      networkStatus: (value) =>
        annotationHas(value, names.NETWORK_STATUS_ANNOTATION, interfaceName),
    },
  );
  const instance = firstTimes(
    (listener) => watch.vmis.onChange(listener),
    () => watch.vmis.find(key),
    {
      attached: ({ status }) =>
        status?.attachments?.some(({ name, state }) => name === NAME && state === "Attached") ===
        true,
      ready: ({ status }) =>
        status?.interfaces?.some(
          ({ name, hotplug }) => name === NAME && hotplug?.phase === "Ready",
        ) === true,
    },
  );
  const console = machine.console(vmi);
  const since = console.position();
  const startedWall = Date.now();
  const started = performance.now();
  const request = watch.client.requestRaw({
    method: "PUT",
    path: `/apis/${names.SUBRESOURCES_GROUP}/v1/namespaces/default/virtualmachines/${vmi}/addinterface`,
    body: { name: NAME, networkAttachmentDefinitionName: "perf" },
  });
  const guest = console
    .waitForLine(/nic added/, { timeoutMs: WAIT_MS, since })
    .then(() => performance.now());
  const returned = request.then(() => performance.now());
  const guestLine = await guest;
  const putReturned = await returned;
  await eventually(() => instance.times.has("ready"), { withinMs: WAIT_MS });
  pod.stop();
  instance.stop();
  await watch.close();
  const handler = logLines(machine, "virt-handler", startedWall);
  const attach = handler.find(({ action, iface }) => action === "attachDevice" && iface === NAME);
  const agent = logLines(machine, "net-agent", startedWall);
  await unplug(machine, vmi);
  const at = (times: Map<string, number>, name: string): number =>
    (times.get(name) ?? NaN) - started;
  return {
    putReturned: putReturned - started,
    annotation: at(pod.times, "annotation"),
    networkStatus: at(pod.times, "networkStatus"),
    attached: at(instance.times, "attached"),
    libvirtReturned: Date.parse(attach?.timestamp ?? "") - startedWall,
    ready: at(instance.times, "ready"),
    guestLine: guestLine - started,
    cniMs: agent.find(({ durationMs }) => durationMs !== undefined)?.durationMs ?? 0,
    linksMs: durationOf(handler, "wireTap"),
    libvirtMs: attach?.durationMs ?? 0,
  };
}
