// SPDX-License-Identifier: Apache-2.0
// POST /mutate: defaults for VMs and VMIs. Source: KubeVirt pkg/defaults, pkg/network/vmispec.
import {
  names,
  type Iface,
  type Network,
  type VirtualMachine,
  type VmiSpec,
  VIRTUAL_MACHINE_INSTANCES,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import {
  buildAutoNic,
  declaresNoNics,
  findAutoNic,
  withDefaultBinding,
} from "@patchbay/api/validate";
import {
  findDefaultKind,
  validateMatchers,
  findMatcher,
  PARTS,
  readParts,
  type Part,
} from "@patchbay/core/instancetype";
import { ifacesOf, networksOf, withMacs, withNics } from "@patchbay/core/nics";
import { isOwnedBy } from "@patchbay/core/vm";
import { messageOf } from "@patchbay/base";
import type { Deps } from "../deps.ts";
import { inferVm } from "../expansion.ts";
import {
  type AdmissionRequest,
  type Verdict,
  ALLOWED,
  vmiSpecOf,
  type Subject,
  findSubject,
  isUnchanged,
  metadataOf,
} from "./review.ts";

function basePathOf({ kind }: Subject): string {
  return kind === "vm" ? "/spec/template/spec" : "/spec";
}

function matcherOperations(
  vm: VirtualMachine,
  inferred: VirtualMachine,
  part: Part,
): readonly JsonPatchOperation[] {
  const [matcher, found] = [findMatcher(vm, part), findMatcher(inferred, part)];
  const path = `/spec/${part}`;
  if (matcher === undefined) return [];
  if (found === undefined) return [{ op: "remove", path }];
  if (found !== matcher) return [{ op: "add", path, value: found }];
  if ((matcher.kind ?? "") !== "" || (matcher.name ?? "") === "") return [];
  return [{ op: "add", path: `${path}/kind`, value: findDefaultKind(part) }];
}

/** Adds missing kinds of instancetype and preference, and values inferred from the VM's volumes. `inferred` has all inferences. */
function buildMatcherPatch(subject: Subject, inferred: Subject): readonly JsonPatchOperation[] {
  if (subject.kind === "vmi" || inferred.kind === "vmi") return [];
  const path = `${basePathOf(subject)}/domain/memory`;
  const hadMemory = "memory" in vmiSpecOf(subject).domain;
  return [
    ...PARTS.flatMap((part) => matcherOperations(subject.vm, inferred.vm, part)),
    ...(hadMemory && !("memory" in vmiSpecOf(inferred).domain)
      ? [{ op: "remove", path } as const]
      : []),
  ];
}

async function inferSubject(
  deps: Deps,
  { namespace }: AdmissionRequest,
  { subject, old }: { readonly subject: Subject; readonly old: Subject | undefined },
): Promise<Subject | string> {
  if (subject.kind === "vmi") return subject;
  // The validating webhook reports invalid matchers.
  if (validateMatchers(subject.vm, old?.kind === "vm" ? old.vm : undefined).length > 0)
    return subject;
  const inferred = await inferVm(deps.store, inNamespace(subject.vm, namespace));
  return inferred.kind === "refused" ? inferred.message : inferred;
}

interface Nic {
  readonly network: Network;
  readonly iface: Iface;
}

interface Defaults {
  readonly patch: readonly JsonPatchOperation[];
  readonly warnings: readonly string[];
}

const NO_DEFAULTS: Defaults = { patch: [], warnings: [] };
const NIC_RETAINED_WARNING =
  "the VM declares no interfaces, so it keeps its interface on the pod network; set autoattachPodInterface: false to remove it";

/** Returns whether the VM or its preference disables the default NIC. The validating webhook reports a missing preference. */
async function isOptedOut(deps: Deps, subject: Subject, namespace: string): Promise<boolean> {
  const own = vmiSpecOf(subject).domain.devices?.autoattachPodInterface;
  if (own !== undefined || subject.kind === "vmi") return own === false;
  const { apiVersion, kind, metadata, spec } = inNamespace(subject.vm, namespace);
  const { parts } = await readParts(
    { apiVersion, kind, metadata, spec },
    deps.store.find.bind(deps.store),
  );
  return parts.preference?.devices?.preferredAutoattachPodInterface === false;
}

function buildNicPatch(base: string, { domain }: VmiSpec, nic: Nic): readonly JsonPatchOperation[] {
  const path = `${base}/domain/devices`;
  const interfaces = [nic.iface];
  return [
    { op: "add", path: `${base}/networks`, value: [nic.network] },
    // Devices may be null, because the schema is checked after this webhook.
    (domain.devices ?? undefined) === undefined
      ? { op: "add", path, value: { interfaces } }
      : { op: "add", path: `${path}/interfaces`, value: interfaces },
  ];
}

/** Returns a NIC for new objects. Existing objects retain theirs, so that users can apply a manifest without NICs again. */
function findDefaultNic(
  deps: Deps,
  { subject, old }: { readonly subject: Subject; readonly old: Subject | undefined },
): Nic | undefined {
  return old === undefined
    ? buildAutoNic(vmiSpecOf(subject), deps.networkConfig().autoBinding)
    : findAutoNic(vmiSpecOf(old));
}

/** Adds the default NIC to an object without NICs, unless a service of Patchbay wrote it. */
async function addDefaultNic(
  deps: Deps,
  { namespace, user }: AdmissionRequest,
  { subject, old }: { readonly subject: Subject; readonly old: Subject | undefined },
): Promise<Defaults> {
  const spec = vmiSpecOf(subject);
  if (user.name.startsWith(names.SERVICE_ACCOUNT_PREFIX) || !declaresNoNics(spec))
    return NO_DEFAULTS;
  const nic = findDefaultNic(deps, { subject, old });
  if (nic === undefined) return NO_DEFAULTS;
  if (await isOptedOut(deps, subject, namespace)) return NO_DEFAULTS;
  const patch = buildNicPatch(basePathOf(subject), spec, nic);
  return { patch, warnings: old === undefined ? [] : [NIC_RETAINED_WARNING] };
}

/** Sets the namespace, which the object may omit. */
function inNamespace(vm: VirtualMachine, namespace: string): VirtualMachine {
  return { ...vm, metadata: { ...vm.metadata, namespace } };
}

/** Time limit for finding an earlier MAC, in milliseconds. After it the write continues with a new MAC. */
const LOOKUP_TIMEOUT_MS = 1000;

function lacksMac(iface: Iface): boolean {
  return (iface.macAddress ?? "") === "";
}

/** Finds the spec of the VM's VMI, from which a NIC that is not yet unplugged retains its MAC. */
async function findRunningSpec(
  deps: Deps,
  subject: Subject,
  namespace: string,
): Promise<VmiSpec | undefined> {
  const name = metadataOf(subject).name;
  if (subject.kind === "vmi" || name === "") return undefined;
  try {
    const key = { namespace, name };
    const options = { timeoutMs: LOOKUP_TIMEOUT_MS };
    const vmi = await deps.cachedReader.find(VIRTUAL_MACHINE_INSTANCES, key, options);
    return vmi !== undefined && isOwnedBy(vmi, subject.vm) ? vmi.spec : undefined;
  } catch (error) {
    deps.log.warn("cannot look up an earlier MAC", {
      vm: `${namespace}/${name}`,
      err: messageOf(error),
    });
    return undefined;
  }
}

async function findEarlierSpecs(
  deps: Deps,
  request: AdmissionRequest,
  subject: Subject,
): Promise<readonly VmiSpec[]> {
  const old = findSubject(request.kind, request.oldObject);
  if (old === undefined) return [];
  const running = await findRunningSpec(deps, subject, request.namespace);
  return [vmiSpecOf(old), ...(running === undefined ? [] : [running])];
}

function addedFields(before: Iface, after: Iface, path: string): readonly JsonPatchOperation[] {
  return (["bridge", "macAddress"] as const)
    .filter((field) => before[field] !== after[field])
    .map((field) => ({ op: "add", path: `${path}/${field}`, value: after[field] }));
}

async function buildNicsPatch(
  deps: Deps,
  request: AdmissionRequest,
  subject: Subject,
): Promise<readonly JsonPatchOperation[]> {
  const spec = vmiSpecOf(subject);
  const before = ifacesOf(spec);
  const networks = networksOf(spec);
  const bound = before.map((iface) => withDefaultBinding(iface, networks));
  const earlier = before.some(lacksMac) ? await findEarlierSpecs(deps, request, subject) : [];
  const after = withMacs(withNics(spec, networks, bound), {
    namespace: request.namespace,
    earlier,
    randomBytes: deps.randomBytes,
  });
  const base = basePathOf(subject);
  return before.flatMap((iface, index) =>
    addedFields(iface, after[index] ?? iface, `${base}/domain/devices/interfaces/${String(index)}`),
  );
}

export async function mutate(deps: Deps, request: AdmissionRequest): Promise<Verdict> {
  const subject = findSubject(request.kind, request.object);
  if (subject === undefined || metadataOf(subject).deletionTimestamp !== undefined) return ALLOWED;
  const old = findSubject(request.kind, request.oldObject);
  if (isUnchanged(subject, old)) return ALLOWED;
  const inferred = await inferSubject(deps, request, { subject, old });
  if (typeof inferred === "string")
    return { allowed: false, code: 400, message: inferred, causes: [] };
  const auto = await addDefaultNic(deps, request, { subject: inferred, old });
  return {
    allowed: true,
    ...(auto.warnings.length === 0 ? {} : { warnings: auto.warnings }),
    patch: [
      ...buildMatcherPatch(subject, inferred),
      ...auto.patch,
      ...(await buildNicsPatch(deps, request, subject)),
    ],
  };
}
