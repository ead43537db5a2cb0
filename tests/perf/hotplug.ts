// SPDX-License-Identifier: Apache-2.0
// Duration of one hotplug through the whole product, by phase, from the request to the guest's own line.
import { createHash } from "node:crypto";
import { join } from "node:path";
import { names, PODS, VIRTUAL_MACHINE_INSTANCES, type VirtualMachineInstance } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import {
  createCache,
  createKubeClient,
  loadKubeConfig,
  type KubeClient,
  type StartableCache,
} from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { eventually, type Machine } from "@patchbay/support";
import { logLines, type LogLine } from "./component-log.ts";

const NAME = "bench";
const WAIT_MS = 60_000;

/** Milliseconds since the request was sent. */
export interface HotplugTimes {
  readonly putReturned: number;
  readonly vmi: number;
  readonly annotation: number;
  readonly addBegan: number;
  readonly addEnded: number;
  readonly networkStatus: number;
  readonly attached: number;
  readonly wiringBegan: number;
  readonly wiringEnded: number;
  readonly libvirtReturned: number;
  readonly ready: number;
  readonly guestLine: number;
  /** Duration of libvirt's attach, as virt-handler measures it. */
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
  // The watches keep their connections open; the request, timed from its sending, finds an open one.
  await client.requestRaw({ method: "GET", path: "/version" });
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

/** Start and end of a logged step, milliseconds since the request, with millisecond resolution. */
function spanOf(line: LogLine | undefined, startedWall: number): readonly [number, number] {
  const ended = Date.parse(line?.timestamp ?? "") - startedWall;
  return [ended - (line?.durationMs ?? NaN), ended];
}

/** Log lines of the node's processes about it. */
function stepsOn(machine: Machine, startedWall: number) {
  const handler = logLines(machine, "virt-handler", startedWall);
  const of = (step: string): LogLine | undefined =>
    handler.find(({ action, iface }) => action === step && iface === NAME);
  const add = logLines(machine, "net-agent", startedWall).find(
    ({ durationMs }) => durationMs !== undefined,
  );
  const [addBegan, addEnded] = spanOf(add, startedWall);
  const [wiringBegan, wiringEnded] = spanOf(of("wireTap"), startedWall);
  const [attachBegan, libvirtReturned] = spanOf(of("attachDevice"), startedWall);
  const libvirtMs = libvirtReturned - attachBegan;
  return { addBegan, addEnded, wiringBegan, wiringEnded, libvirtReturned, libvirtMs };
}

/** One plug into that network, which is undone afterwards. */
export async function measureHotplug(
  machine: Machine,
  vmi: string,
  network: string,
): Promise<HotplugTimes> {
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
      vmi: ({ spec }) => spec.networks?.some(({ name }) => name === NAME) === true,
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
    body: { name: NAME, networkAttachmentDefinitionName: network },
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
  const steps = stepsOn(machine, startedWall);
  await unplug(machine, vmi);
  const at = (times: Map<string, number>, name: string): number =>
    (times.get(name) ?? NaN) - started;
  return {
    ...steps,
    putReturned: putReturned - started,
    vmi: at(instance.times, "vmi"),
    annotation: at(pod.times, "annotation"),
    networkStatus: at(pod.times, "networkStatus"),
    attached: at(instance.times, "attached"),
    ready: at(instance.times, "ready"),
    guestLine: guestLine - started,
  };
}
