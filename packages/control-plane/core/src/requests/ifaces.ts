// SPDX-License-Identifier: Apache-2.0
// Parses and plans addinterface and removeinterface requests. Source: KubeVirt v1.0.1 virt-api/rest/interfacehotplug.go.
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

function findNamespace(target: NicTarget): string {
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

/** Returns why the VM or VMI accepts no interface requests. Source: KubeVirt v1.0.0-rc.0 virt-api/rest ("VMI is not running"). */
export function findTargetProblem(target: NicTarget): Refusal | undefined {
  if (target.kind === "vm") {
    return target.vm.metadata.deletionTimestamp === undefined
      ? undefined
      : toRefusal(409, [], "VM is being deleted");
  }
  const { status, metadata } = target.vmi;
  if (metadata.deletionTimestamp === undefined && status?.phase === "Running") return undefined;
  return toRefusal(409, [], `VMI is not running${describeLoss(target.vmi)}`);
}

function buildTargetPatch(target: NicTarget, nics: Nics): readonly JsonPatchOperation[] {
  const location =
    target.kind === "vm"
      ? { object: target.vm, base: "/spec/template/spec" }
      : { object: target.vmi, base: "/spec" };
  return toNicsPatch({ ...location, spec: specOf(target) }, nics);
}

interface AddIfaceFacts {
  readonly target: NicTarget;
  readonly request: AddIfaceRequest;
  readonly nadExists: boolean;
  /** Most similar name of a definition in the VM's namespace. Set if the requested definition does not exist. */
  readonly nearestNetwork?: string | undefined;
  readonly bindings: BindingRegistry;
}

function buildRequestedNetwork({ request }: AddIfaceFacts): Network {
  return {
    name: request.name,
    multus: { networkName: request.networkAttachmentDefinitionName },
  };
}

function isRequestedNetwork(network: Network | undefined, facts: AddIfaceFacts): boolean {
  const namespace = findNamespace(facts.target);
  return (
    network !== undefined &&
    !isDefaultNetwork(network) &&
    networkNameOf(network, namespace) === networkNameOf(buildRequestedNetwork(facts), namespace)
  );
}

function findNameConflict(facts: AddIfaceFacts, message: string): NicPlan {
  return refuse(409, [{ reason: "FieldValueDuplicate", field: "name", message }], message);
}

function describeNetwork(network: Network | undefined): string {
  return network?.multus?.networkName ?? "of the pod";
}

function describeConflict(iface: Iface, network: Network | undefined): string {
  const [name, networkName] = [iface.name, describeNetwork(network)];
  if (isAbsent(iface)) return `interface '${name}' is being unplugged from network ${networkName}`;
  const isSecondary = network !== undefined && !isDefaultNetwork(network);
  const advice = isSecondary
    ? "; to swap its network, change it in the specification, or with patchbay set interface"
    : "";
  return `interface '${name}' is on network ${networkName}${advice}`;
}

function listDifferingFields(iface: Iface, { request }: AddIfaceFacts): readonly string[] {
  return Object.entries(request.fields).flatMap(([field, value]) => {
    const currentValue = (iface as Readonly<Record<string, unknown>>)[field];
    const isSame =
      field === "macAddress" && typeof value === "string" && typeof currentValue === "string"
        ? normalizeMac(value) === normalizeMac(currentValue)
        : isEqual(value, currentValue);
    const isIgnored = field === "state" && isAbsent(iface);
    return isSame || isIgnored ? [] : [field];
  });
}

function withoutUnplug(iface: Iface, state: string | undefined): Iface {
  const pluggedIface: Iface = { ...iface };
  delete pluggedIface.state;
  return state === undefined ? pluggedIface : { ...pluggedIface, state };
}

function findBindingCauses(iface: Iface, facts: AddIfaceFacts): readonly Cause[] {
  const binding = resolveBinding(iface, buildRequestedNetwork(facts), facts.bindings);
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
    return findNameConflict(facts, describeConflict(iface, network));
  }
  const causes = findBindingCauses(iface, facts);
  if (causes.length > 0) return refuse(422, causes);
  const differingNames = listDifferingFields(iface, facts);
  if (differingNames.length > 0) {
    const fields = differingNames.join(", ");
    return findNameConflict(
      facts,
      `interface '${iface.name}' already exists with another ${fields}`,
    );
  }
  if (!isAbsent(iface)) {
    return { kind: "unchanged", message: `interface '${iface.name}' already exists` };
  }
  const ifaces = ifacesOf(spec).map((candidate) =>
    candidate === iface ? withoutUnplug(iface, request.fields.state) : candidate,
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
    operations: buildTargetPatch(target, { networks, ifaces }),
    effect: isLive ? "live" : "start",
    message: isLive
      ? `interface '${request.name}' will be plugged into the running guest`
      : `interface '${request.name}' will be plugged when the VM starts`,
  };
}

/** Returns the running VMI's interface with the requested name. Must be called only if the VM's spec does not contain this interface. */
function findUnplugging({ target, request }: AddIfaceFacts): Iface | undefined {
  const vmi = target.kind === "vm" ? findLiveVmi(target) : undefined;
  return vmi === undefined ? undefined : findByName(ifacesOf(vmi.spec), request.name);
}

/** Returns why the running guest cannot get the interface: its model needs I/O ports, or no unreserved port is free. */
function findCapacityProblem(facts: AddIfaceFacts, newIface: Iface): string | undefined {
  const vmi = findLiveVmi(facts.target);
  if (vmi === undefined) return undefined;
  const modelProblem = findIoPortProblem(vmi, newIface)?.message;
  const ports = reservePorts(vmi, specOf(facts.target), facts.bindings);
  if (modelProblem !== undefined || ports === undefined || ports.free > ports.reserved.length)
    return modelProblem;
  const reservedPorts =
    ports.reserved.length === 0
      ? ""
      : `, ${String(ports.reserved.length)} promised to interfaces that are being plugged`;
  return `no free PCIe port: ${noFreePortMessage(vmi).message}${reservedPorts}`;
}

/** Maps a field of the spec to a field of the request. Returns an empty string if no request field sets the spec's field. */
function toRequestField(field: string, paths: { iface: string; network: string }): string {
  if (field.startsWith(`${paths.network}.multus`)) return "networkAttachmentDefinitionName";
  if (field.startsWith(`${paths.iface}.`)) return field.slice(paths.iface.length + 1);
  return field.startsWith(paths.network) || field === paths.iface ? "name" : "";
}

/** Applies the admission rules to the new interface and network, which are last in the lists. Maps problems to the request's fields. */
function findRuleCauses(
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
  const { networkAttachmentDefinitionName: requestedNetworkName } = request;
  const nad = parseNadName(requestedNetworkName);
  const namespace = nad?.namespace ?? findNamespace(target);
  const suggestion =
    nearestNetwork === undefined ? "" : `; the nearest name there is "${nearestNetwork}"`;
  return `NetworkAttachmentDefinition "${nad?.name ?? requestedNetworkName}" not found in namespace ${namespace}${suggestion}`;
}

function findRequestCauses(facts: AddIfaceFacts, newIface: Iface): readonly Cause[] {
  const { request, nadExists } = facts;
  const causes = [...findBindingCauses(newIface, facts)];
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
    const network = describeNetwork(unpluggingNetwork);
    return findNameConflict(
      facts,
      `interface '${request.name}' is being unplugged from network ${network}`,
    );
  }
  const networks = [...networksOf(spec), buildRequestedNetwork(facts)];
  const macAddress = unplugging?.macAddress;
  const macField = macAddress === undefined ? {} : { macAddress };
  const newIface: Iface = { name: request.name, ...macField, ...request.fields };
  const ifaces = [...ifacesOf(spec), withDefaultBinding(newIface, networks)];
  const causes = [
    ...findRequestCauses(facts, newIface),
    ...findRuleCauses(facts, networks, ifaces),
  ];
  if (causes.length > 0) return refuse(422, causes);
  const portProblem = unplugging === undefined ? findCapacityProblem(facts, newIface) : undefined;
  return portProblem === undefined ? toPlan(facts, networks, ifaces) : refuse(409, [], portProblem);
}

/** Plans an addinterface request. A repeated request changes nothing, except that it cancels a pending unplug. */
export function planAddIface(facts: AddIfaceFacts): NicPlan {
  const problem = findTargetProblem(facts.target);
  if (problem !== undefined) return { kind: "refused", refusal: problem };
  const existing = findByName(ifacesOf(specOf(facts.target)), facts.request.name);
  return existing === undefined ? planNew(facts) : planExisting(facts, existing);
}

export type IfaceFields = Omit<Iface, "name">;

/** Body of addinterface. `fields` is a Patchbay extension. Source: KubeVirt v1.0.1 AddInterfaceOptions. */
export interface AddIfaceRequest {
  readonly name: string;
  /** Name of the definition, as NAME or NAMESPACE/NAME. */
  readonly networkAttachmentDefinitionName: string;
  readonly fields: IfaceFields;
}

/** Body of removeinterface. Source: KubeVirt v1.0.1 RemoveInterfaceOptions. */
interface RemoveIfaceRequest {
  readonly name: string;
}

type FieldKind = "string" | "integer" | "object" | "list";

/** Request fields for the interface and its network selection element, with their types. */
const IFACE_FIELDS: Readonly<Record<string, FieldKind>> = {
  model: "string",
  macAddress: "string",
  state: "string",
  pciAddress: "string",
  mtu: "integer",
  bandwidth: "object",
  queues: "integer",
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
/** Fields that some clients send. virt-api ignores them. */
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

function findRequiredCauses(
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

function findFieldCauses(
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

/** Reports a missing binding name by its path in the request. Schema validation would report the path in the spec instead. */
function findBindingNameCauses({ binding }: JsonObject): readonly Cause[] {
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
  const requiredCauses = findRequiredCauses(options, body, fields.required);
  const optionalFields = Object.entries(body).filter(([field]) => !fields.required.includes(field));
  const causes = [
    ...requiredCauses,
    ...findFieldCauses(Object.fromEntries(optionalFields), fields.optional),
    ...findBindingNameCauses(body),
  ];
  // The first cause provides the overall message, because KubeVirt's clients match that message.
  return causes.length === 0 ? { ok: true, value: body } : refused(causes, causes[0]?.message);
}

function readText(body: JsonObject, field: string): string {
  const value = body[field];
  return typeof value === "string" ? value : "";
}

export function parseAddIface(body: unknown): Parsed<AddIfaceRequest> {
  const requiredFields = ["networkAttachmentDefinitionName", "name"];
  const checkedBody = checkBody("AddInterfaceOptions", body, {
    required: requiredFields,
    optional: IFACE_FIELDS,
  });
  if (!checkedBody.ok) return checkedBody;
  const presentFields = Object.entries(checkedBody.value).filter(
    ([field, value]) => field in IFACE_FIELDS && value !== null && value !== "",
  );
  return {
    ok: true,
    value: {
      name: readText(checkedBody.value, "name"),
      networkAttachmentDefinitionName: readText(
        checkedBody.value,
        "networkAttachmentDefinitionName",
      ),
      fields: Object.fromEntries(presentFields),
    },
  };
}

export function parseRemoveIface(body: unknown): Parsed<RemoveIfaceRequest> {
  const checkedBody = checkBody("RemoveInterfaceOptions", body, {
    required: ["name"],
    optional: {},
  });
  return checkedBody.ok
    ? { ok: true, value: { name: readText(checkedBody.value, "name") } }
    : checkedBody;
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

/** Marks the interface `absent` instead of deleting it, because the running guest has the NIC. */
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
    operations: buildTargetPatch(target, { networks: networksOf(spec), ifaces }),
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
    operations: buildTargetPatch(target, { networks, ifaces }),
    effect: "start",
    message: `interface '${request.name}' is removed when the VM starts`,
  };
}

/** Plans a removeinterface request. A repeated request changes nothing. The default network cannot be removed. */
export function planRemoveIface(facts: RemoveIfaceFacts): NicPlan {
  const { target, request } = facts;
  const problem = findTargetProblem(target);
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
