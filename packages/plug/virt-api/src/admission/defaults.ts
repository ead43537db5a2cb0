// SPDX-License-Identifier: Apache-2.0
// What a VM gets that says nothing of it: the kinds of its instancetype and preference, and a NIC on the pod's network.
// Source: KubeVirt pkg/defaults, pkg/network/vmispec.
import {
  autoNicOf,
  declaresNoNics,
  findAutoNic,
  names,
  type Iface,
  type JsonPatchOperation,
  type Network,
  type VirtualMachine,
  type VmiSpec,
} from "@patchbay/api";
import { defaultKindOf, isLeftOut, matcherOf, PARTS, readParts, type Part } from "@patchbay/core";
import type { Deps } from "../deps.ts";
import type { AdmissionRequest } from "./review.ts";
import { vmiSpecOf, type Subject } from "./subject.ts";

/** Where the VMI specification of a subject is. */
export function basePathOf({ kind }: Subject): string {
  return kind === "vm" ? "/spec/template/spec" : "/spec";
}

function matcherOperations(vm: VirtualMachine, part: Part): readonly JsonPatchOperation[] {
  const matcher = matcherOf(vm, part);
  if (matcher === undefined) return [];
  if (isLeftOut(matcher)) return [{ op: "remove", path: `/spec/${part}` }];
  if ((matcher.kind ?? "") !== "" || (matcher.name ?? "") === "") return [];
  return [{ op: "add", path: `/spec/${part}/kind`, value: defaultKindOf(part) }];
}

/** The kind of each part that is named alone; one that cannot be found out, and may be left out, goes. */
export function matcherPatch(subject: Subject): readonly JsonPatchOperation[] {
  if (subject.kind === "vmi") return [];
  return PARTS.flatMap((part) => matcherOperations(subject.vm, part));
}

interface Nic {
  readonly network: Network;
  readonly iface: Iface;
}

/** What is filled in, and what is said about it. */
interface Filled {
  readonly patch: readonly JsonPatchOperation[];
  readonly warnings: readonly string[];
}

const NOTHING: Filled = { patch: [], warnings: [] };
/** For an edit by which the NIC would have gone. */
const KEPT =
  "the interface on the pod's network stays, as for every VM that declares none; set autoattachPodInterface: false to have none";

/** What suits the guest, where the VM does not say. One that is not there the validation tells of. */
async function isUnwanted(deps: Deps, subject: Subject): Promise<boolean> {
  const own = vmiSpecOf(subject).domain.devices?.autoattachPodInterface;
  if (own !== undefined || subject.kind === "vmi") return own === false;
  const { apiVersion, kind, metadata, spec } = subject.vm;
  const { parts } = await readParts(
    { apiVersion, kind, metadata, spec },
    deps.store.find.bind(deps.store),
  );
  return parts.preference?.devices?.preferredAutoattachPodInterface === false;
}

function nicPatch(base: string, { domain }: VmiSpec, nic: Nic): readonly JsonPatchOperation[] {
  const path = `${base}/domain/devices`;
  const interfaces = [nic.iface];
  return [
    { op: "add", path: `${base}/networks`, value: [nic.network] },
    // Nothing was judged yet: it may be null.
    (domain.devices ?? undefined) === undefined
      ? { op: "add", path, value: { interfaces } }
      : { op: "add", path: `${path}/interfaces`, value: interfaces },
  ];
}

/** A new object gets one; one that has it keeps it, so that a manifest that says nothing of it can be applied again. */
function nicFor(
  deps: Deps,
  { subject, old }: { readonly subject: Subject; readonly old: Subject | undefined },
): Nic | undefined {
  return old === undefined
    ? autoNicOf(vmiSpecOf(subject), deps.networkConfig().autoBinding)
    : findAutoNic(vmiSpecOf(old));
}

/** The NIC of an object that declares none. What our own services write is as it is to be. */
export async function fillAutoNic(
  deps: Deps,
  { namespace, user }: AdmissionRequest,
  { subject, old }: { readonly subject: Subject; readonly old: Subject | undefined },
): Promise<Filled> {
  const spec = vmiSpecOf(subject);
  if (user.name.startsWith(names.SERVICE_ACCOUNT_PREFIX) || !declaresNoNics(spec)) return NOTHING;
  const nic = nicFor(deps, { subject, old });
  if (nic === undefined) return NOTHING;
  if (await isUnwanted(deps, inNamespace(subject, namespace))) return NOTHING;
  const patch = nicPatch(basePathOf(subject), spec, nic);
  return { patch, warnings: old === undefined ? [] : [KEPT] };
}

/** The object need not name the namespace of its request. */
function inNamespace(subject: Subject, namespace: string): Subject {
  if (subject.kind === "vmi") return subject;
  const { vm } = subject;
  return { kind: "vm", vm: { ...vm, metadata: { ...vm.metadata, namespace } } };
}
