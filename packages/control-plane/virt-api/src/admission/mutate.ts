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
  MATCHER_ROLES,
  readInstancetypes,
  type MatcherRole,
} from "@patchbay/core/instancetype";
import { ifacesOf, needsRandomMac, networksOf, withMacs, withNics } from "@patchbay/core/nics";
import { isOwnedBy } from "@patchbay/core/vm";
import { messageOf } from "@patchbay/base";
import type { Deps } from "../deps.ts";
import { inferVm } from "../expansion.ts";
import {
  type AdmissionRequest,
  type Verdict,
  ALLOWED,
  refuseBeyondLimit,
  vmiSpecOf,
  type Subject,
  findSubject,
  isUnchanged,
  metadataOf,
} from "./review.ts";

function findBasePath({ kind }: Subject): string {
  return kind === "vm" ? "/spec/template/spec" : "/spec";
}

function buildMatcherOperations(
  vm: VirtualMachine,
  inferred: VirtualMachine,
  role: MatcherRole,
): readonly JsonPatchOperation[] {
  const [matcher, inferredMatcher] = [findMatcher(vm, role), findMatcher(inferred, role)];
  const path = `/spec/${role}`;
  if (matcher === undefined) return [];
  if (inferredMatcher === undefined) return [{ op: "remove", path }];
  if (inferredMatcher !== matcher) return [{ op: "add", path, value: inferredMatcher }];
  if ((matcher.kind ?? "") !== "" || (matcher.name ?? "") === "") return [];
  return [{ op: "add", path: `${path}/kind`, value: findDefaultKind(role) }];
}

/** Builds operations that complete instancetype and preference matchers, and remove the VM's memory if an inferred instancetype sets it. */
function buildMatcherPatch(subject: Subject, inferred: Subject): readonly JsonPatchOperation[] {
  if (subject.kind === "vmi" || inferred.kind === "vmi") return [];
  const path = `${findBasePath(subject)}/domain/memory`;
  const hasMemory = "memory" in vmiSpecOf(subject).domain;
  return [
    ...MATCHER_ROLES.flatMap((role) => buildMatcherOperations(subject.vm, inferred.vm, role)),
    ...(hasMemory && !("memory" in vmiSpecOf(inferred).domain)
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
  // Ignores invalid matchers, which the validating webhook reports.
  if (validateMatchers(subject.vm, old?.kind === "vm" ? old.vm : undefined).length > 0)
    return subject;
  const inferred = await inferVm(deps.store, withNamespace(subject.vm, namespace));
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

async function isOptedOut(deps: Deps, subject: Subject, namespace: string): Promise<boolean> {
  const autoattach = vmiSpecOf(subject).domain.devices?.autoattachPodInterface;
  if (autoattach !== undefined || subject.kind === "vmi") return autoattach === false;
  const { apiVersion, kind, metadata, spec } = withNamespace(subject.vm, namespace);
  const { specs } = await readInstancetypes(
    { apiVersion, kind, metadata, spec },
    deps.store.find.bind(deps.store),
  );
  return specs.preference?.devices?.preferredAutoattachPodInterface === false;
}

function buildNicPatch(base: string, { domain }: VmiSpec, nic: Nic): readonly JsonPatchOperation[] {
  const path = `${base}/domain/devices`;
  const interfaces = [nic.iface];
  return [
    { op: "add", path: `${base}/networks`, value: [nic.network] },
    // `devices` may be null, because the API server checks the schema after this webhook.
    (domain.devices ?? undefined) === undefined
      ? { op: "add", path, value: { interfaces } }
      : { op: "add", path: `${path}/interfaces`, value: interfaces },
  ];
}

/** Returns the default NIC to add: a new NIC for a new object, or the existing object's default NIC, so that an update retains that NIC. */
function findDefaultNic(
  deps: Deps,
  { subject, old }: { readonly subject: Subject; readonly old: Subject | undefined },
): Nic | undefined {
  return old === undefined
    ? buildAutoNic(vmiSpecOf(subject), deps.networkConfig().autoBinding)
    : findAutoNic(vmiSpecOf(old));
}

/**
 * Adds the default NIC to an object without NICs. Skips objects that Patchbay's services write, and objects that opt out themselves or
 * through a preference.
 */
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
  const patch = buildNicPatch(findBasePath(subject), spec, nic);
  return { patch, warnings: old === undefined ? [] : [NIC_RETAINED_WARNING] };
}

/** Returns the VM with the request's namespace, because the object may omit its namespace. */
function withNamespace(vm: VirtualMachine, namespace: string): VirtualMachine {
  return { ...vm, metadata: { ...vm.metadata, namespace } };
}

/** Time limit for reading the VM's VMI, in milliseconds. After a timeout, a NIC gets a new MAC if the VM's old object has none for it. */
const LOOKUP_TIMEOUT_MS = 1000;

/** Returns the specification of the VM's VMI, so that the VM's NICs retain their MACs. */
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
  const runningSpec = await findRunningSpec(deps, subject, request.namespace);
  return [vmiSpecOf(old), ...(runningSpec === undefined ? [] : [runningSpec])];
}

function buildFieldOperations(
  before: Iface,
  after: Iface,
  path: string,
): readonly JsonPatchOperation[] {
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
  const ifaces = before.map((iface) => withDefaultBinding(iface, networks));
  const bound = withNics(spec, networks, ifaces);
  const { bindings } = deps.networkConfig();
  const needsMac = ifaces.some((iface) => needsRandomMac(iface, bound, bindings));
  const earlier = needsMac ? await findEarlierSpecs(deps, request, subject) : [];
  const after = withMacs(bound, {
    namespace: request.namespace,
    bindings,
    earlier,
    randomBytes: deps.randomBytes,
  });
  const base = findBasePath(subject);
  return before.flatMap((iface, index) =>
    buildFieldOperations(
      iface,
      after[index] ?? iface,
      `${base}/domain/devices/interfaces/${String(index)}`,
    ),
  );
}

export async function mutate(deps: Deps, request: AdmissionRequest): Promise<Verdict> {
  const beyondLimit = refuseBeyondLimit(request);
  if (beyondLimit !== undefined) return beyondLimit;
  const subject = findSubject(request.kind, request.object);
  if (subject === undefined || metadataOf(subject).deletionTimestamp !== undefined) return ALLOWED;
  const old = findSubject(request.kind, request.oldObject);
  if (isUnchanged(subject, old)) return ALLOWED;
  const inferred = await inferSubject(deps, request, { subject, old });
  if (typeof inferred === "string")
    return { allowed: false, code: 400, message: inferred, causes: [] };
  const defaultNic = await addDefaultNic(deps, request, { subject: inferred, old });
  return {
    allowed: true,
    ...(defaultNic.warnings.length === 0 ? {} : { warnings: defaultNic.warnings }),
    patch: [
      ...buildMatcherPatch(subject, inferred),
      ...defaultNic.patch,
      ...(await buildNicsPatch(deps, request, subject)),
    ],
  };
}
