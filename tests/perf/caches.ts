// SPDX-License-Identifier: Apache-2.0
// Memory of the services' caches with many VMs, beside caches of whole objects. Each cache is measured in its own process.
import { execFileSync } from "node:child_process";
import type { KubeObject, Pod, Service } from "@patchbay/api/kubernetes";
import type { VirtualMachine, VirtualMachineInstance } from "@patchbay/api";
import { createCache, type KubeClient, type Reflection } from "@patchbay/kube";
import { aVmi, vmManifest } from "@patchbay/support";
import { createSilentLogger } from "@patchbay/telemetry";
import { Subject } from "rxjs";
import {
  trimLauncher,
  trimStoredVm,
  trimStoredVmi,
} from "../../packages/control-plane/core/src/vm/trimmed-objects.ts";
import { trimVm, trimVmi } from "../../packages/control-plane/virt-api/src/caches.ts";
import { trimPod } from "../../packages/standalone/node-runtime/src/schedule/placement.ts";
import { watchObjects } from "../../packages/standalone/service-net/src/objects.ts";

/** Annotations of other programs, as deployment tools write them. */
const ANNOTATIONS = Object.fromEntries(
  Array.from({ length: 8 }, (_none, index) => [
    `tool.example/note-${String(index)}`,
    "x".repeat(500),
  ]),
);

function withAnnotations<T extends KubeObject>(object: T): T {
  const annotations = { ...object.metadata.annotations, ...ANNOTATIONS };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

function aVm(): VirtualMachine {
  // The manifest is a VM, whose type the fixtures do not state.
  const vm = withAnnotations(vmManifest({ name: "vm" }) as VirtualMachine);
  const { template } = vm.spec;
  const metadata = { ...template.metadata, annotations: ANNOTATIONS };
  return { ...vm, spec: { ...vm.spec, template: { ...template, metadata } } };
}

function aVmiWithStatus(): VirtualMachineInstance {
  const vmi = withAnnotations(aVmi({ nics: [{ name: "one" }, { name: "two" }] }));
  const interfaces = ["one", "two"].map((name) => ({
    name,
    mac: "02:00:00:00:00:01",
    ipAddresses: ["10.0.0.1", "fd00::1"],
    infoSource: "domain, guest-agent",
  }));
  return { ...vmi, status: { ...vmi.status, phase: "Running", interfaces } };
}

function aLauncher(): Pod {
  const env = Array.from({ length: 12 }, (_none, index) => ({
    name: `VARIABLE_${String(index)}`,
    value: "x".repeat(60),
  }));
  const container = { name: "compute", image: "registry.example/virt-launcher:1", env };
  return withAnnotations({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "launcher", namespace: "ns", labels: { "kubevirt.io": "virt-launcher" } },
    spec: { nodeName: "a", containers: [container] },
    status: { phase: "Running", podIP: "10.0.0.1" },
  });
}

function aService(): Service {
  return withAnnotations({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace: "ns" },
    spec: { type: "ClusterIP", clusterIP: "10.96.0.5", ports: [{ port: 80 }] },
  });
}

/** Options with which service-net reads Services. */
function findServiceTrim(): (object: never) => KubeObject {
  let found: ((object: never) => KubeObject) | undefined;
  const reflect: KubeClient["reflect"] = (type, options) => {
    if (type.resource === "services") found = options?.trim;
    return new Subject();
  };
  watchObjects({ reflect } as KubeClient, createSilentLogger());
  if (found === undefined) throw new Error("service-net trims no Services");
  return found;
}

const CACHES: Readonly<
  Record<
    string,
    { readonly object: () => KubeObject; readonly trim: (object: never) => KubeObject }
  >
> = {
  "virt-api: VMs": { object: aVm, trim: trimVm },
  "virt-api: VMIs": { object: aVmiWithStatus, trim: trimVmi },
  "virt-controller: VMs": { object: aVm, trim: trimStoredVm },
  "virt-controller: VMIs": { object: aVmiWithStatus, trim: trimStoredVmi },
  "virt-controller: launcher pods": { object: aLauncher, trim: trimLauncher },
  "binder: pods": { object: aLauncher, trim: trimPod },
  "service-net: Services": { object: aService, trim: findServiceTrim() },
};

function heapMb(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed / 2 ** 20;
}

/** Fills a cache with parsed objects, and prints the growth of the heap in MB. */
function fill(name: string, isTrimmed: boolean, count: number): void {
  const cached = CACHES[name];
  if (cached === undefined) throw new Error(`there is no cache ${name}`);
  const source = new Subject<Reflection<KubeObject>>();
  const cache = createCache(source, { logger: createSilentLogger() });
  cache.start(new AbortController().signal);
  const text = JSON.stringify(cached.object());
  const before = heapMb();
  for (let index = 0; index < count; index += 1) {
    const parsed = JSON.parse(text) as KubeObject;
    const metadata = { ...parsed.metadata, name: `vm-${String(index)}`, resourceVersion: "1" };
    const object = { ...parsed, metadata };
    source.next({ kind: "applied", object: isTrimmed ? cached.trim(object as never) : object });
  }
  const grownMb = heapMb() - before;
  if (cache.list().length !== count) throw new Error("objects are missing");
  process.stdout.write(grownMb.toFixed(1));
}

function measureInChild(name: string, isTrimmed: boolean, count: number): string {
  const options = ["--expose-gc", "--conditions=@patchbay/source", import.meta.filename];
  const given = [name, isTrimmed ? "trimmed" : "whole", String(count)];
  return execFileSync(process.execPath, [...options, ...given], { encoding: "utf8" });
}

export function measureCaches(count: number): void {
  const rows = Object.keys(CACHES).map((name) => ({
    cache: name,
    "whole objects, MB": measureInChild(name, false, count),
    "retained fields, MB": measureInChild(name, true, count),
  }));
  console.log(`${String(count)} objects in each cache, with 8 annotations of other programs`);
  console.table(rows);
}

const [, script, name, form, count] = process.argv;
if (script === import.meta.filename && name !== undefined)
  fill(name, form === "trimmed", Number(count));
