// SPDX-License-Identifier: Apache-2.0
// Requests to addinterface and removeinterface: parsing of their bodies, and plans for the VM or VMI that they name.
// Source: KubeVirt v1.0.1 api/types.go, virt-api/rest/interfacehotplug.go.
import {
  isVmiFinal,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
  isAbsent,
  isDefaultNetwork,
  type BindingRegistry,
  type Iface,
  type Network,
} from "@patchbay/api";
import { type JsonPatchOperation, isJsonObject, type JsonObject } from "@patchbay/api/json";
import type { Cause } from "@patchbay/api/kubernetes";
import { validateVmiSpec, withDefaultBinding } from "@patchbay/api/validate";
import { normalizeMac, parseNadName } from "@patchbay/api/values";
import type { NodeLoss } from "../node/node-loss.ts";
import {
  type Nics,
  findByName,
  ifacesOf,
  networkNameOf,
  networksOf,
  withNics,
} from "../nics/nics.ts";
import { toNicsPatch } from "../nics/spec-plan.ts";
import { toRefusal, type Refusal, refuse, type NicPlan, type Parsed } from "./refusal.ts";
import { NEEDS_START } from "./spec-edits.ts";
import { resolveBinding } from "../nics/bindings/resolve-binding.ts";
import { isEqual } from "@patchbay/base";
import { reservePorts, findIoPortProblem } from "../nics/pcie/ports.ts";
import { noFreePortMessage } from "../reasons/messages.ts";

export type NicTarget =
  | { readonly kind: "vm"; readonly vm: VirtualMachine; readonly vmi?: VirtualMachineInstance }
  | { readonly kind: "vmi"; readonly vmi: VirtualMachineInstance };

function specOf(target: NicTarget): VmiSpec {
  return target.kind === "vm" ? target.vm.spec.template.spec : target.vmi.spec;
}

function namespaceOf(target: NicTarget): string {
  return (target.kind === "vm" ? target.vm : target.vmi).metadata.namespace ?? "";
}

export function isEndedOrDeleting(vmi: VirtualMachineInstance): boolean {
  return isVmiFinal(vmi) || vmi.metadata.deletionTimestamp !== undefined;
}

function findLiveVmi(target: NicTarget): VirtualMachineInstance | undefined {
  const { vmi } = target;
  return vmi === undefined || isEndedOrDeleting(vmi) ? undefined : vmi;
}

const NODE_LOST: NodeLoss["reason"] = "NodeUnresponsive";

function describeLoss({ status }: VirtualMachineInstance): string {
  const lossMessage = status?.conditions?.find(({ reason }) => reason === NODE_LOST)?.message;
  return status?.phase === "Unknown" && lossMessage !== undefined ? `: ${lossMessage}` : "";
}

/** Returns why the target accepts no request now. Source: KubeVirt v1.0.0-rc.0 virt-api/rest ("VMI is not running"). */
export function targetProblem(target: NicTarget): Refusal | undefined {
  if (target.kind === "vm") {
    return target.vm.metadata.deletionTimestamp === undefined
      ? undefined
      : toRefusal(409, [], "VM is being deleted");
  }
  const { status, metadata } = target.vmi;
  if (metadata.deletionTimestamp === undefined && status?.phase === "Running") return undefined;
  return toRefusal(409, [], `VMI is not running${describeLoss(target.vmi)}`);
}

function patchTarget(target: NicTarget, to: Nics): readonly JsonPatchOperation[] {
  const location =
    target.kind === "vm"
      ? { object: target.vm, base: "/spec/template/spec" }
      : { object: target.vmi, base: "/spec" };
  return toNicsPatch({ ...location, spec: specOf(target) }, to);
}

interface AddIfaceFacts {
  readonly target: NicTarget;
  readonly request: AddIfaceRequest;
  readonly nadExists: boolean;
  /** The most similar name in the VM's namespace, if the definition is missing. */
  readonly nearestNetwork?: string | undefined;
  /** An unused MAC for an interface whose request names none. */
  readonly newMac?: string;
  readonly bindings: BindingRegistry;
}

function requestedNetwork({ request }: AddIfaceFacts): Network {
  return {
    name: request.name,
    multus: { networkName: request.networkAttachmentDefinitionName },
  };
}

function isRequestedNetwork(network: Network | undefined, facts: AddIfaceFacts): boolean {
  const namespace = namespaceOf(facts.target);
  return (
    network !== undefined &&
    !isDefaultNetwork(network) &&
    networkNameOf(network, namespace) === networkNameOf(requestedNetwork(facts), namespace)
  );
}

function nameConflict(facts: AddIfaceFacts, message: string): NicPlan {
  return refuse(409, [{ reason: "FieldValueDuplicate", field: "name", message }], message);
}

function networkText(network: Network | undefined): string {
  return network?.multus?.networkName ?? "of the pod";
}

/** Describes why an existing interface cannot be added. Adding never moves it to another network. */
function describeConflict(iface: Iface, network: Network | undefined): string {
  const [name, networkName] = [iface.name, networkText(network)];
  if (isAbsent(iface)) return `interface '${name}' is being unplugged from network ${networkName}`;
  const isSecondary = network !== undefined && !isDefaultNetwork(network);
  const advice = isSecondary
    ? "; to swap its network, change it in the specification, or with patchbay set interface"
    : "";
  return `interface '${name}' is on network ${networkName}${advice}`;
}

function differingFields(iface: Iface, { request }: AddIfaceFacts): readonly string[] {
  return Object.entries(request.fields).flatMap(([field, value]) => {
    const current = (iface as Readonly<Record<string, unknown>>)[field];
    const isSame =
      field === "macAddress" && typeof value === "string" && typeof current === "string"
        ? normalizeMac(value) === normalizeMac(current)
        : isEqual(value, current);
    const isIgnored = field === "state" && isAbsent(iface);
    return isSame || isIgnored ? [] : [field];
  });
}

function withoutUnplug(iface: Iface, state: string | undefined): Iface {
  const plugged: Iface = { ...iface };
  delete plugged.state;
  return state === undefined ? plugged : { ...plugged, state };
}

/** Resolves the binding on the requested network, which is always a secondary one. */
function bindingCauses(iface: Iface, facts: AddIfaceFacts): readonly Cause[] {
  const binding = resolveBinding(iface, requestedNetwork(facts), facts.bindings);
  const reason = "FieldValueNotSupported";
  if (binding.kind === "refused") {
    const { field, message } = binding;
    return [{ reason, field, message: `${field} ${message}` }];
  }
  const isLive = findLiveVmi(facts.target) !== undefined;
  if (binding.hasHook !== true || !isLive) return [];
  return [{ reason, field: "binding", message: `binding ${NEEDS_START}` }];
}

function planExisting(facts: AddIfaceFacts, iface: Iface): NicPlan {
  const { target, request } = facts;
  const spec = specOf(target);
  const network = findByName(networksOf(spec), iface.name);
  if (!isRequestedNetwork(network, facts)) {
    return nameConflict(facts, describeConflict(iface, network));
  }
  const causes = bindingCauses(iface, facts);
  if (causes.length > 0) return refuse(422, causes);
  const differing = differingFields(iface, facts);
  if (differing.length > 0) {
    const fields = differing.join(", ");
    return nameConflict(facts, `interface '${iface.name}' already exists with another ${fields}`);
  }
  if (!isAbsent(iface)) {
    return { kind: "unchanged", message: `interface '${iface.name}' already exists` };
  }
  const ifaces = ifacesOf(spec).map((each) =>
    each === iface ? withoutUnplug(iface, request.fields.state) : each,
  );
  return toPlan(facts, networksOf(spec), ifaces);
}

function toPlan(
  { target, request }: AddIfaceFacts,
  networks: readonly Network[],
  ifaces: readonly Iface[],
): NicPlan {
  const isLive = findLiveVmi(target) !== undefined;
  return {
    kind: "patch",
    operations: patchTarget(target, { networks, ifaces }),
    effect: isLive ? "live" : "start",
    message: isLive
      ? `interface '${request.name}' will be plugged into the running guest`
      : `interface '${request.name}' will be plugged when the VM starts`,
  };
}

/** Returns the running VMI's interface that the VM no longer has and whose unplug has not finished. */
function findUnplugging({ target, request }: AddIfaceFacts): Iface | undefined {
  const vmi = target.kind === "vm" ? findLiveVmi(target) : undefined;
  return vmi === undefined ? undefined : findByName(ifacesOf(vmi.spec), request.name);
}

/** Returns why the running guest has no port for the interface. Interfaces that are being plugged reserve free ports. */
function capacityProblem(facts: AddIfaceFacts, wanted: Iface): string | undefined {
  const vmi = findLiveVmi(facts.target);
  if (vmi === undefined) return undefined;
  const unfit = findIoPortProblem(vmi, wanted)?.message;
  const ports = reservePorts(vmi, specOf(facts.target), facts.bindings);
  if (unfit !== undefined || ports === undefined || ports.free > ports.reserved.length)
    return unfit;
  const reserved =
    ports.reserved.length === 0
      ? ""
      : `, ${String(ports.reserved.length)} promised to interfaces that are being plugged`;
  return `no free PCIe port: ${noFreePortMessage(vmi).message}${reserved}`;
}

/** Maps a field of the spec to the request's field that sets it; empty for other fields. */
function toRequestField(field: string, paths: { iface: string; network: string }): string {
  if (field.startsWith(`${paths.network}.multus`)) return "networkAttachmentDefinitionName";
  if (field.startsWith(`${paths.iface}.`)) return field.slice(paths.iface.length + 1);
  return field.startsWith(paths.network) || field === paths.iface ? "name" : "";
}

/** Runs the admission rules on the new entries, and reports problems with the request's fields. */
function ruleCauses(
  facts: AddIfaceFacts,
  networks: readonly Network[],
  ifaces: readonly Iface[],
): readonly Cause[] {
  const paths = {
    iface: `spec.domain.devices.interfaces[${String(ifaces.length - 1)}]`,
    network: `spec.networks[${String(networks.length - 1)}]`,
  };
  const spec = withNics(specOf(facts.target), networks, ifaces);
  return validateVmiSpec(spec, "spec", "create").flatMap((cause) => {
    const field = toRequestField(cause.field, paths);
    const message = cause.message
      .replaceAll(`${paths.iface}.name`, `'${facts.request.name}'`)
      .replaceAll(`${paths.network}.name`, "network");
    return field === "" ? [] : [{ ...cause, field, message }];
  });
}

function describeMissingNetwork({ target, request, nearestNetwork }: AddIfaceFacts): string {
  const { networkAttachmentDefinitionName: named } = request;
  const nad = parseNadName(named);
  const namespace = nad?.namespace ?? namespaceOf(target);
  const suggestion =
    nearestNetwork === undefined ? "" : `; the nearest name there is "${nearestNetwork}"`;
  return `NetworkAttachmentDefinition "${nad?.name ?? named}" not found in namespace ${namespace}${suggestion}`;
}

function requestCauses(facts: AddIfaceFacts, wanted: Iface): readonly Cause[] {
  const { request, nadExists } = facts;
  const causes = [...bindingCauses(wanted, facts)];
  if (request.fields.state === "absent") {
    const message = "an interface cannot be added as absent";
    causes.push({ reason: "FieldValueInvalid", field: "state", message });
  }
  if (!nadExists) {
    causes.push({
      reason: "FieldValueNotFound",
      field: "networkAttachmentDefinitionName",
      message: describeMissingNetwork(facts),
    });
  }
  return causes;
}

function planNew(facts: AddIfaceFacts): NicPlan {
  const { target, request } = facts;
  const spec = specOf(target);
  const unplugging = findUnplugging(facts);
  const unpluggingNetwork = findByName(findLiveVmi(target)?.spec.networks, request.name);
  if (unplugging !== undefined && !isRequestedNetwork(unpluggingNetwork, facts)) {
    const network = networkText(unpluggingNetwork);
    return nameConflict(
      facts,
      `interface '${request.name}' is being unplugged from network ${network}`,
    );
  }
  const networks = [...networksOf(spec), requestedNetwork(facts)];
  const macAddress = unplugging?.macAddress ?? facts.newMac;
  const chosen = macAddress === undefined ? {} : { macAddress };
  const wanted: Iface = { name: request.name, ...chosen, ...request.fields };
  const ifaces = [...ifacesOf(spec), withDefaultBinding(wanted, networks)];
  const causes = [...requestCauses(facts, wanted), ...ruleCauses(facts, networks, ifaces)];
  if (causes.length > 0) return refuse(422, causes);
  const shortage = unplugging === undefined ? capacityProblem(facts, wanted) : undefined;
  return shortage === undefined ? toPlan(facts, networks, ifaces) : refuse(409, [], shortage);
}

/**
 * Plans an addinterface request. A repeated request changes nothing, except that it cancels a pending unplug. A name in use on
 * another network is a conflict. Invalid fields are reported together.
 */
export function planAddIface(facts: AddIfaceFacts): NicPlan {
  const problem = targetProblem(facts.target);
  if (problem !== undefined) return { kind: "refused", refusal: problem };
  const existing = findByName(ifacesOf(specOf(facts.target)), facts.request.name);
  return existing === undefined ? planNew(facts) : planExisting(facts, existing);
}

export type IfaceFields = Omit<Iface, "name">;

/** Source: KubeVirt v1.0.1 AddInterfaceOptions. `fields` is a Patchbay extension. */
export interface AddIfaceRequest {
  readonly name: string;
  /** NAME or NAMESPACE/NAME. */
  readonly networkAttachmentDefinitionName: string;
  readonly fields: IfaceFields;
}

/** Source: KubeVirt v1.0.1 RemoveInterfaceOptions. */
interface RemoveIfaceRequest {
  readonly name: string;
}

type FieldKind = "string" | "integer" | "object" | "list";

/** Kinds of the fields that a request may set: KubeVirt's Interface, and Patchbay's for the network selection element. */
const IFACE_FIELDS: Readonly<Record<string, FieldKind>> = {
  model: "string",
  macAddress: "string",
  state: "string",
  pciAddress: "string",
  acpiIndex: "integer",
  bootOrder: "integer",
  tag: "string",
  dhcpOptions: "object",
  bridge: "object",
  sriov: "object",
  binding: "object",
  ips: "list",
  ipamClaimName: "string",
  cniArgs: "object",
};
/** Fields that some clients send and that have no effect. */
const IGNORED_FIELDS: readonly string[] = ["apiVersion", "kind", "dryRun"];

function isOfKind(value: unknown, kind: FieldKind): boolean {
  if (kind === "integer") return Number.isInteger(value);
  if (kind === "list")
    return Array.isArray(value) && value.every((element) => typeof element === "string");
  return kind === "object" ? isJsonObject(value) : typeof value === "string";
}

function refused(causes: readonly Cause[], message?: string): Parsed<never> {
  return { ok: false, refusal: toRefusal(400, causes, message) };
}

function requiredCauses(
  options: string,
  body: JsonObject,
  names: readonly string[],
): readonly Cause[] {
  return names.flatMap((field): readonly Cause[] => {
    const value = body[field];
    if (value === undefined || value === null || value === "") {
      const message = `${options} requires \`${field}\` to be set`;
      return [{ reason: "FieldValueRequired", field, message }];
    }
    return typeof value === "string"
      ? []
      : [{ reason: "FieldValueInvalid", field, message: `${field} must be a string` }];
  });
}

function fieldCauses(
  body: JsonObject,
  kinds: Readonly<Record<string, FieldKind>>,
): readonly Cause[] {
  return Object.entries(body).flatMap(([field, value]): readonly Cause[] => {
    const kind = kinds[field];
    if (IGNORED_FIELDS.includes(field)) return [];
    if (kind === undefined) {
      const message = `unknown field "${field}"`;
      return [{ reason: "FieldValueNotSupported", field, message }];
    }
    return isOfKind(value, kind) || value === null
      ? []
      : [{ reason: "FieldValueInvalid", field, message: `${field} must be of type ${kind}` }];
  });
}

/** Reports a missing binding name with the request's path. Schema validation would name a path of the spec. */
function bindingNameCauses({ binding }: JsonObject): readonly Cause[] {
  if (!isJsonObject(binding) || typeof binding["name"] === "string") return [];
  const field = "binding.name";
  return [{ reason: "FieldValueRequired", field, message: `${field} must be a string` }];
}

function checkBody(
  options: string,
  body: unknown,
  fields: { readonly required: readonly string[]; readonly optional: typeof IFACE_FIELDS },
): Parsed<JsonObject> {
  if (body === undefined) return refused([], "no request body, unable to decode options");
  if (!isJsonObject(body)) {
    const message = "cannot unmarshal Request body to struct, error: the body is not a JSON object";
    return refused([], message);
  }
  const required = requiredCauses(options, body, fields.required);
  const optionalFields = Object.entries(body).filter(([field]) => !fields.required.includes(field));
  const causes = [
    ...required,
    ...fieldCauses(Object.fromEntries(optionalFields), fields.optional),
    ...bindingNameCauses(body),
  ];
  // KubeVirt's clients match the first message, so it stays the overall message.
  return causes.length === 0 ? { ok: true, value: body } : refused(causes, causes[0]?.message);
}

function readText(body: JsonObject, field: string): string {
  const value = body[field];
  return typeof value === "string" ? value : "";
}

export function parseAddIface(body: unknown): Parsed<AddIfaceRequest> {
  const required = ["networkAttachmentDefinitionName", "name"];
  const checked = checkBody("AddInterfaceOptions", body, { required, optional: IFACE_FIELDS });
  if (!checked.ok) return checked;
  const presentFields = Object.entries(checked.value).filter(
    ([field, value]) => field in IFACE_FIELDS && value !== null && value !== "",
  );
  return {
    ok: true,
    value: {
      name: readText(checked.value, "name"),
      networkAttachmentDefinitionName: readText(checked.value, "networkAttachmentDefinitionName"),
      fields: Object.fromEntries(presentFields),
    },
  };
}

export function parseRemoveIface(body: unknown): Parsed<RemoveIfaceRequest> {
  const checked = checkBody("RemoveInterfaceOptions", body, { required: ["name"], optional: {} });
  return checked.ok ? { ok: true, value: { name: readText(checked.value, "name") } } : checked;
}

interface RemoveIfaceFacts {
  readonly target: NicTarget;
  readonly request: RemoveIfaceRequest;
}

function isUnplugging({ target, request }: RemoveIfaceFacts): boolean {
  const vmi = target.kind === "vm" ? findLiveVmi(target) : undefined;
  return vmi !== undefined && findByName(ifacesOf(vmi.spec), request.name) !== undefined;
}

function planMissing(facts: RemoveIfaceFacts): NicPlan {
  const { name } = facts.request;
  if (isUnplugging(facts)) {
    return { kind: "unchanged", message: `interface '${name}' is already being unplugged` };
  }
  const message = `interface '${name}' not found`;
  return refuse(422, [{ reason: "FieldValueNotFound", field: "name", message }]);
}

/** Marks the interface `absent` instead of deleting it, because the running guest still has the NIC. */
function planUnplug({ target, request }: RemoveIfaceFacts, iface: Iface): NicPlan {
  const spec = specOf(target);
  const index = ifacesOf(spec).indexOf(iface);
  const ifaces = ifacesOf(spec).with(index, { ...iface, state: "absent" });
  const field = `spec.domain.devices.interfaces[${String(index)}].state`;
  const causes = validateVmiSpec(withNics(spec, networksOf(spec), ifaces), "spec")
    .filter((cause) => cause.field === field)
    .map((cause) => ({ ...cause, field: "name" }));
  if (causes.length > 0) return refuse(422, causes);
  return {
    kind: "patch",
    operations: patchTarget(target, { networks: networksOf(spec), ifaces }),
    effect: "live",
    message: `interface '${request.name}' will be unplugged from the running guest`,
  };
}

function planRemovalFromSpec({ target, request }: RemoveIfaceFacts): NicPlan {
  const spec = specOf(target);
  const networks = networksOf(spec).filter(({ name }) => name !== request.name);
  const ifaces = ifacesOf(spec).filter(({ name }) => name !== request.name);
  return {
    kind: "patch",
    operations: patchTarget(target, { networks, ifaces }),
    effect: "start",
    message: `interface '${request.name}' is removed when the VM starts`,
  };
}

/** Plans a removeinterface request. A repeated request changes nothing. The default network cannot be removed. */
export function planRemoveIface(facts: RemoveIfaceFacts): NicPlan {
  const { target, request } = facts;
  const problem = targetProblem(target);
  if (problem !== undefined) return { kind: "refused", refusal: problem };
  const spec = specOf(target);
  const iface = findByName(ifacesOf(spec), request.name);
  if (iface === undefined) return planMissing(facts);
  const network = findByName(networksOf(spec), request.name);
  if (network !== undefined && isDefaultNetwork(network)) {
    const message = `interface '${request.name}' is on the default network of the pod and cannot be removed`;
    return refuse(422, [{ reason: "FieldValueInvalid", field: "name", message }]);
  }
  if (findLiveVmi(target) === undefined) return planRemovalFromSpec(facts);
  return isAbsent(iface)
    ? { kind: "unchanged", message: `interface '${request.name}' is already being unplugged` }
    : planUnplug(facts, iface);
}
