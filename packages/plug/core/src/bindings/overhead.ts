// SPDX-License-Identifier: Apache-2.0
// How much memory do the registered bindings of a VM take in its launcher? Source: KubeVirt pkg/network/resources memory.go.
import { parseQuantity, type BindingRegistry, type VmiSpec } from "@patchbay/api";
import { ifacesOf } from "../spec/nics.ts";
import { canBind } from "./binding-of.ts";

const BYTES_PER_MIB = 1024 * 1024;

function overheadMiBIn(registry: BindingRegistry, name: string): number {
  const memory = registry[name]?.computeResourceOverhead?.requests?.["memory"] ?? 0;
  return Math.ceil((parseQuantity(memory) ?? 0) / BYTES_PER_MIB);
}

/** What they are registered with, MiB, rounded up: each once, however many interfaces have it. What cannot be read is 0. */
export function bindingsMiBOf(spec: VmiSpec, registry: BindingRegistry): number {
  const bound = ifacesOf(spec).filter((iface) => canBind(spec, iface, registry));
  const names = new Set(bound.flatMap(({ binding }) => binding?.name ?? []));
  return [...names].reduce((sum, name) => sum + overheadMiBIn(registry, name), 0);
}
