// SPDX-License-Identifier: Apache-2.0
// POST /validate: dispatches requests by kind, and validates VMs and VMIs against the state of the cluster.
import {
  type VmiSpec,
  names,
  type NetworkConfig,
  type VirtualMachineInstance,
  type VirtualMachine,
  isAbsent,
  startsAutomatically,
  VIRTUAL_MACHINE_INSTANCES,
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  DATA_VOLUMES,
  INSTANCETYPES,
  PREFERENCES,
  findRejectionReason,
  type InstancetypeSpec,
  type PreferenceSpec,
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
} from "@patchbay/api";
import { validateRequestedAddresses } from "@patchbay/api/annotations";
import type { Cause } from "@patchbay/api/kubernetes";
import {
  listGatedCauses,
  validateVmChange,
  validateVmName,
  validateVmiNetworkChange,
  validateVmiChange,
  validateInstancetype,
  validatePreference,
  preferenceWarnings,
} from "@patchbay/api/validate";
import { normalizeMac } from "@patchbay/api/values";
import {
  findByName,
  findMacConflicts,
  findOwnMacConflicts,
  ifacesOf,
  networksOf,
  describeMacOwner,
  type MacConflict,
  findPciAddressCauses,
} from "@patchbay/core/nics";
import type { Deps } from "../deps.ts";
import { isEqual, messageOf, SHARE_KEYS } from "@patchbay/base";
import {
  refuseBeyondLimit,
  vmiSpecOf,
  type Subject,
  ALLOWED,
  toVerdict,
  type AdmissionRequest,
  type Verdict,
  asObject,
  readText,
  findSubject,
  isUnchanged,
} from "./review.ts";
import { type Specs, denyForeignNetworks, listUnservedClaimCauses } from "../networks.ts";
import {
  isEndedOrDeleting,
  listNewIfaceBindingCauses,
  listLiveNetworkChangeCauses,
  listNewIfaceHookCauses,
  refuseVmiChange,
} from "@patchbay/core/requests";
import { isOwnedBy, vmiOf, findOwnerVm, readDataVolume } from "@patchbay/core/vm";
import { validateMatchers } from "@patchbay/core/instancetype";
import { expandVm } from "../expansion.ts";
import { parseNetworkConfig } from "@patchbay/cni";
import { validateMigrationOrEviction } from "./migrations.ts";
import {
  listCapacityWarnings,
  listDataVolumeWarnings,
  listFieldWarnings,
  listMissingNetworkWarnings,
} from "./warnings.ts";
import { guardLauncher, guardStatus } from "./guards.ts";

interface MacCheck {
  readonly namespace: string;
  readonly name: string;
  readonly spec: VmiSpec;
  readonly old: VmiSpec | undefined;
  readonly base: string;
  /** Whether the VM has no guest and does not start automatically. A MAC conflict of a halted VM causes a warning only. */
  readonly isHalted?: boolean;
  /** Whether the stored VM was halted. If it was, this update may start the VM. */
  readonly wasHalted?: boolean;
}

type MacDeps = Pick<Deps, "listMacOwners" | "segmentOf">;

function describeMacConflict(conflict: MacConflict, { namespace }: MacCheck): string {
  const location = conflict.isOtherNetwork ? "the bridge of network" : "network";
  return `MAC address ${conflict.mac} is in use on ${location} ${conflict.network} by ${describeMacOwner(conflict.owner, namespace)}`;
}

function buildMacPath({ index }: MacConflict, { base }: MacCheck): string {
  return `${base}.domain.devices.interfaces[${String(index)}].macAddress`;
}

function findMac(spec: VmiSpec | undefined, name: string): string {
  const iface = spec && findByName(ifacesOf(spec), name);
  return normalizeMac(iface?.macAddress ?? "");
}

/** Returns for each interface whether to check its MAC. A MAC is checked if it is new or if this update starts the VM. */
function listNewMacs({ spec, old, isHalted, wasHalted }: MacCheck): readonly boolean[] {
  const isStarting = wasHalted === true && isHalted !== true;
  return ifacesOf(spec).map(({ name }) => isStarting || findMac(old, name) !== findMac(spec, name));
}

function findNewMacConflicts(deps: MacDeps, check: MacCheck): readonly MacConflict[] {
  const areNew = listNewMacs(check);
  if (!areNew.includes(true)) return [];
  const macs = ifacesOf(check.spec).map(({ macAddress = "" }) => normalizeMac(macAddress));
  return findMacConflicts(check, deps.listMacOwners(macs), deps.segmentOf).filter(
    ({ index }) => areNew[index] === true,
  );
}

export function listMacConflictCauses(deps: MacDeps, check: MacCheck): readonly Cause[] {
  if (check.isHalted === true) return [];
  return findNewMacConflicts(deps, check)
    .filter(({ isOwnerHalted }) => !isOwnerHalted)
    .map((conflict) => ({
      reason: "FieldValueDuplicate",
      field: buildMacPath(conflict, check),
      message: describeMacConflict(conflict, check),
    }));
}

/** Warns of equal MACs within a VM. Equal MACs are not an error, because the ports of a bond share a MAC. */
function listOwnMacConflictWarnings(deps: MacDeps, check: MacCheck): readonly string[] {
  const { spec, base } = check;
  const areNew = listNewMacs(check);
  return findOwnMacConflicts(check, deps.segmentOf)
    .filter(({ index, earlier }) => areNew[index] === true || areNew[earlier] === true)
    .map(({ index, earlier, mac, networks }) => {
      const field = `${base}.domain.devices.interfaces[${String(index)}].macAddress`;
      const name = ifacesOf(spec)[earlier]?.name ?? "";
      return `${field}: MAC address ${mac} is that of interface '${name}' too, and networks ${networks.join(" and ")} have one bridge: frames reach one of the two at a time, so it is useful for ports of a bond only`;
    });
}

/** Warns of new MACs that a halted VM shares with another VM, and of equal MACs within the VM. Shared MACs of running VMs are an error. */
export function listMacConflictWarnings(deps: MacDeps, check: MacCheck): readonly string[] {
  const vmWarnings = findNewMacConflicts(deps, check)
    .filter(({ isOwnerHalted }) => isOwnerHalted || check.isHalted === true)
    .map(
      (conflict) =>
        `${buildMacPath(conflict, check)}: ${describeMacConflict(conflict, check)}; only one of the two VMs can run at a time`,
    );
  return [...vmWarnings, ...listOwnMacConflictWarnings(deps, check)];
}

const TEMPLATE_SPEC_PATH = "spec.template.spec";
const OWN_ACCOUNT = `${names.SERVICE_ACCOUNT_PREFIX}virt-api`;

interface VmUpdate {
  readonly vm: VirtualMachine;
  readonly old: VirtualMachine | undefined;
}

interface ExpandedVmUpdate extends VmUpdate {
  readonly causes: readonly Cause[];
}

/**
 * Applies instancetype and preference to the old and the new VM. Returns only causes that the old VM did not have. Returns the VMs
 * unchanged if a Patchbay service made the write.
 */
async function expandBoth(
  deps: Deps,
  update: VmUpdate,
  isService: boolean,
): Promise<ExpandedVmUpdate> {
  if (isService) return { ...update, causes: [] };
  const [expanded, expandedOld] = await Promise.all([
    expandVm(deps.store, update.vm),
    update.old && expandVm(deps.store, update.old),
  ]);
  const knownMessages = new Set(expandedOld?.causes.map(({ message }) => message));
  const causes = expanded.causes.filter(({ message }) => !knownMessages.has(message));
  return { vm: expanded.vm, old: expandedOld?.vm, causes };
}

function addsIface({ spec, old = spec }: Specs): boolean {
  return ifacesOf(spec).some(({ name }) => {
    const before = findByName(ifacesOf(old), name);
    return before === undefined || isAbsent(before);
  });
}

async function findVmiToPlug(
  deps: Deps,
  vm: VirtualMachine,
  specs: Specs,
): Promise<VirtualMachineInstance | undefined> {
  if (deps.networkConfig().isStaged || !addsIface(specs)) return undefined;
  const { name, namespace = "" } = vm.metadata;
  try {
    const vmi = await deps.cachedReader.find(VIRTUAL_MACHINE_INSTANCES, { namespace, name });
    return vmi !== undefined && isOwnedBy(vmi, vm) && !isEndedOrDeleting(vmi) ? vmi : undefined;
  } catch (error) {
    // The write continues without the VMI, because virt-controller repeats the checks before it plugs a NIC.
    deps.log.warn("cannot look up the VMI", { vm: `${namespace}/${name}`, err: messageOf(error) });
    return undefined;
  }
}

function listAddressCauses({ vm, old }: VmUpdate, config: NetworkConfig): readonly Cause[] {
  const toVmi = (candidate: VirtualMachine): VirtualMachineInstance =>
    vmiOf(candidate, config.bindings);
  return findPciAddressCauses(
    { vmi: toVmi(vm), base: TEMPLATE_SPEC_PATH },
    old && toVmi(old),
    config,
  );
}

function buildMacCheck(deps: Deps, { namespace }: AdmissionRequest, update: VmUpdate): MacCheck {
  const { vm, old } = update;
  const { name } = vm.metadata;
  const hasGuest = deps.hasGuest({ namespace, name });
  return {
    namespace,
    name,
    base: TEMPLATE_SPEC_PATH,
    ...toSpecs(update),
    isHalted: !hasGuest && !startsAutomatically(vm),
    wasHalted: old !== undefined && !hasGuest && !startsAutomatically(old),
  };
}

/** Lists the reasons to reject the VM. `vmi` is the running VMI to which the update adds an interface. */
async function listCauses(
  deps: Deps,
  request: AdmissionRequest,
  { vm, old, vmi }: VmUpdate & { readonly vmi: VirtualMachineInstance | undefined },
): Promise<readonly Cause[]> {
  const { spec } = vm.spec.template;
  const before = old?.spec.template.spec;
  const config = deps.networkConfig();
  const { bindings } = config;
  return [
    ...(old === undefined ? validateVmName(vm.metadata.name) : []),
    ...validateVmChange(old?.spec, vm.spec),
    ...listGatedCauses({ before, after: spec, base: TEMPLATE_SPEC_PATH }, config.nicGates),
    ...(vmi === undefined
      ? []
      : listNewIfaceBindingCauses(
          { before: before ?? vmi.spec, after: spec, base: TEMPLATE_SPEC_PATH },
          bindings,
        )),
    ...listAddressCauses({ vm, old }, config),
    ...validateRequestedAddresses(
      vm.spec.template.metadata,
      "spec.template.metadata",
      old?.spec.template.metadata,
    ),
    ...listMacConflictCauses(deps, buildMacCheck(deps, request, { vm, old })),
    ...(await listUnservedClaimCauses(deps, toSpecs({ vm, old }), TEMPLATE_SPEC_PATH)),
  ];
}

function toSpecs({ vm, old }: VmUpdate): Specs {
  return { spec: vm.spec.template.spec, old: old?.spec.template.spec };
}

async function listWarnings(
  deps: Deps,
  request: AdmissionRequest,
  { vm, old, vmi }: VmUpdate & { readonly vmi: VirtualMachineInstance | undefined },
): Promise<readonly string[]> {
  const { namespace } = request;
  const config = deps.networkConfig();
  const specs = toSpecs({ vm, old });
  return [
    ...listMacConflictWarnings(deps, buildMacCheck(deps, request, { vm, old })),
    ...listFieldWarnings({ kind: "vm", vm }, old && { kind: "vm", vm: old }, config),
    ...(await listDataVolumeWarnings(deps, { spec: vm.spec, old: old?.spec })),
    ...(await listMissingNetworkWarnings(deps, specs, namespace)),
    ...listCapacityWarnings(vmi, specs.spec, config.bindings),
  ];
}

async function validateVm(
  deps: Deps,
  request: AdmissionRequest,
  update: VmUpdate,
): Promise<Verdict> {
  const { vm, old } = update;
  if (vm.metadata.deletionTimestamp !== undefined) return ALLOWED;
  const matcherCauses = validateMatchers(vm, old);
  if (matcherCauses.length > 0) return toVerdict(matcherCauses);
  const { name } = request.user;
  const expanded = await expandBoth(deps, update, name.startsWith(names.SERVICE_ACCOUNT_PREFIX));
  // For its own writes, virt-api does not read the VMI, because it has already checked these writes against the VMI.
  const isWriteByVirtApi = name === OWN_ACCOUNT;
  const vmi = isWriteByVirtApi ? undefined : await findVmiToPlug(deps, vm, toSpecs(expanded));
  const causes = [...expanded.causes, ...(await listCauses(deps, request, { ...expanded, vmi }))];
  if (causes.length > 0 || isWriteByVirtApi) return toVerdict(causes, []);
  return toVerdict([], await listWarnings(deps, request, { ...expanded, vmi }));
}

interface VmiUpdate {
  readonly vmi: VirtualMachineInstance;
  readonly old: VirtualMachineInstance | undefined;
}

function findRestriction({ user }: AdmissionRequest, { vmi, old }: VmiUpdate): Verdict | undefined {
  const refusal = old && refuseVmiChange({ old, vmi, user: user.name });
  return refusal && { allowed: false, ...refusal };
}

async function validateVmi(
  deps: Deps,
  request: AdmissionRequest,
  update: VmiUpdate,
): Promise<Verdict> {
  const { vmi, old } = update;
  if (vmi.metadata.deletionTimestamp !== undefined) return ALLOWED;
  const restriction = findRestriction(request, update);
  if (restriction !== undefined) return restriction;
  const specs = { spec: vmi.spec, old: old?.spec };
  const { namespace } = request;
  const isOwned = findOwnerVm(vmi) !== undefined;
  const check = { ...specs, namespace, name: vmi.metadata.name, base: "spec" };
  const config = deps.networkConfig();
  const { bindings } = config;
  const causes = [
    ...validateVmiChange(old?.spec, vmi.spec),
    ...(old === undefined
      ? validateVmName(vmi.metadata.name)
      : [
          ...validateVmiNetworkChange(old.spec, vmi.spec),
          ...listNewIfaceBindingCauses(
            { before: old.spec, after: vmi.spec, base: "spec" },
            bindings,
          ),
          ...listNewIfaceHookCauses({ before: old.spec, after: vmi.spec, base: "spec" }, bindings),
          ...listLiveNetworkChangeCauses(
            { before: old.spec, after: vmi.spec, base: "spec" },
            bindings,
          ),
        ]),
    // A VMI of a VM is not checked again, because admission of the VM has already validated its MACs and PCI addresses.
    ...(isOwned
      ? []
      : [
          ...listGatedCauses({ before: old?.spec, after: vmi.spec, base: "spec" }, config.nicGates),
          ...findPciAddressCauses({ vmi, base: "spec" }, old, config),
          ...validateRequestedAddresses(vmi.metadata, "metadata", old?.metadata),
          ...listMacConflictCauses(deps, check),
          ...(await listUnservedClaimCauses(deps, specs, "spec")),
        ]),
  ];
  if (causes.length > 0 || isOwned) return toVerdict(causes, []);
  return toVerdict(
    [],
    [
      ...listMacConflictWarnings(deps, check),
      ...listFieldWarnings({ kind: "vmi", vmi }, old && { kind: "vmi", vmi: old }, config),
      ...(await listMissingNetworkWarnings(deps, specs, namespace)),
      ...listCapacityWarnings(vmi, vmi.spec, bindings),
    ],
  );
}

/** Validates a DataVolume. Standalone machines need this check, because they run without CDI. Source: CDI datavolume-validate. */
function validateDataVolume(request: AdmissionRequest): Verdict {
  const { namespace, operation, object, oldObject } = request;
  const { spec } = asObject(object);
  if (operation === "CREATE") {
    const parsed = readDataVolume(spec, namespace);
    return toVerdict("causes" in parsed ? parsed.causes : []);
  }
  if (isEqual(spec, asObject(oldObject)["spec"])) return toVerdict([]);
  const message =
    "spec: the specification of a DataVolume cannot be changed; delete it, and create it again";
  return toVerdict([{ reason: "FieldValueForbidden", field: "spec", message }]);
}

function checkInstancetype(spec: unknown): Verdict {
  // The cast is safe, because the API server validated the specification against its schema.
  return toVerdict(validateInstancetype(spec as InstancetypeSpec));
}

function checkPreference(value: unknown): Verdict {
  const spec = value as PreferenceSpec;
  return toVerdict(validatePreference(spec), preferenceWarnings(spec));
}

const VALIDATORS: Readonly<Record<string, (spec: unknown) => Verdict>> = {
  [INSTANCETYPES.kind]: checkInstancetype,
  [CLUSTER_INSTANCETYPES.kind]: checkInstancetype,
  [PREFERENCES.kind]: checkPreference,
  [CLUSTER_PREFERENCES.kind]: checkPreference,
};

function validateOtherKind(request: AdmissionRequest): Verdict | undefined {
  const { kind, object } = request;
  if (kind === DATA_VOLUMES.kind) return validateDataVolume(request);
  const message = findRejectionReason(kind);
  if (message !== undefined) return { allowed: false, code: 403, message, causes: [] };
  return Object.hasOwn(VALIDATORS, kind) ? VALIDATORS[kind]?.(asObject(object)["spec"]) : undefined;
}

/** Warns about a definition that Patchbay cannot use; other programs may use it. Refuses a definition beyond a limit. */
function judgeDefinition({ namespace, object, oldObject }: AdmissionRequest): Verdict {
  const spec = asObject(asObject(object)["spec"]);
  if (isEqual(spec, asObject(oldObject)["spec"])) return ALLOWED;
  const name = readText(asObject(asObject(object)["metadata"]), "name");
  const title = `NetworkAttachmentDefinition ${namespace}/${name}`;
  const text = readText(spec, "config");
  if (text === "") {
    const warning = `${title} has no spec.config: interfaces are attached to it only on nodes with a file that defines a network of that name, in the directory of net-agent's flag --definition-dir`;
    return { allowed: true, warnings: [warning] };
  }
  // Uses a placeholder if the API server generates the name.
  const parsed = parseNetworkConfig(text, name === "" ? "unnamed" : name);
  if (parsed.ok) return ALLOWED;
  if (parsed.isBeyondLimit === true) return toVerdict(parsed.causes);
  const causes = parsed.causes.map(({ field, message }) => `${field}: ${message}`).join("; ");
  const warning = `${title} is stored, but no interface can be attached to it: ${causes}; correct it and apply it again`;
  return { allowed: true, warnings: [warning] };
}

function validateSubject(
  deps: Deps,
  request: AdmissionRequest,
  { subject, old }: { readonly subject: Subject; readonly old: Subject | undefined },
): Promise<Verdict> {
  if (subject.kind === "vm") {
    const { vm } = subject;
    return validateVm(deps, request, { vm, old: old?.kind === "vm" ? old.vm : undefined });
  }
  const { vmi } = subject;
  return validateVmi(deps, request, { vmi, old: old?.kind === "vmi" ? old.vmi : undefined });
}

function changesNics({ spec, old = spec }: Specs): boolean {
  return !isEqual(ifacesOf(spec), ifacesOf(old)) || !isEqual(networksOf(spec), networksOf(old));
}

/** Counts changes of a guest's NICs with those by subresources. They do not wait, because a webhook must respond within seconds. */
function refuseAboveRate(
  { hasGuest, changeRate }: Deps,
  { namespace, name, user, dryRun }: AdmissionRequest,
  specs: Specs,
): Verdict | undefined {
  if (dryRun === true || !changesNics(specs) || !hasGuest({ namespace, name })) return undefined;
  const waitMs = changeRate.tryProceed(SHARE_KEYS.user(user));
  if (waitMs === 0) return undefined;
  const retryAfterSeconds = Math.ceil(waitMs / 1000);
  const message = `this user changes interfaces of running VMs too often; try again in ${String(retryAfterSeconds)} s`;
  return { allowed: false, code: 429, message, causes: [], retryAfterSeconds };
}

export async function validate(deps: Deps, request: AdmissionRequest): Promise<Verdict> {
  if (request.subresource === "status") return guardStatus(deps, request);
  const beyondLimit = refuseBeyondLimit(request);
  if (beyondLimit !== undefined) return beyondLimit;
  if (request.kind === NETWORK_ATTACHMENT_DEFINITIONS.kind) return judgeDefinition(request);
  if (request.kind === PODS.kind) return guardLauncher(request);
  const verdict = validateOtherKind(request) ?? (await validateMigrationOrEviction(deps, request));
  if (verdict !== undefined) return verdict;
  const subject = findSubject(request.kind, request.object);
  if (subject === undefined) return ALLOWED;
  const old = findSubject(request.kind, request.oldObject);
  if (isUnchanged(subject, old)) return ALLOWED;
  const specs = { spec: vmiSpecOf(subject), old: old === undefined ? undefined : vmiSpecOf(old) };
  const judgment =
    (await denyForeignNetworks(deps, request, specs)) ??
    (await validateSubject(deps, request, { subject, old }));
  return judgment.allowed ? (refuseAboveRate(deps, request, specs) ?? judgment) : judgment;
}
