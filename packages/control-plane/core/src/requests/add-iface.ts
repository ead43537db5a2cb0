// SPDX-License-Identifier: Apache-2.0
import {
  isAbsent,
  isDefaultNetwork,
  normalizeMac,
  parseNadName,
  validateVmiSpec,
  withDefaultBinding,
  type BindingRegistry,
  type Cause,
  type Iface,
  type Network,
} from "@patchbay/api";
import { NEEDS_START } from "./spec-edits.ts";
import { resolveBinding } from "../nics/bindings/resolve-binding.ts";
import { isEqual } from "@patchbay/base";
import { reservePorts, ioPortProblem } from "../nics/pcie/ports.ts";
import { noFreePortMessage } from "../reasons/messages.ts";
import { findByName, ifacesOf, networkNameOf, networksOf, withNics } from "../nics/nics.ts";
import type { AddIfaceRequest } from "./nic-body.ts";
import { refuse, type NicPlan } from "./refusal.ts";
import {
  findLiveVmi,
  namespaceOf,
  specOf,
  targetProblem,
  patchTarget,
  type NicTarget,
} from "./target.ts";

interface AddIfaceFacts {
  readonly target: NicTarget;
  readonly request: AddIfaceRequest;
  readonly nadExists: boolean;
  /** The most similar name in the VM's namespace, if the definition is missing. */
  readonly nearestNetwork?: string | undefined;
  /** An unused MAC, for an interface without one. */
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

/** Adding an interface never moves it: only an explicit network swap does. */
function describeConflict(iface: Iface, network: Network | undefined): string {
  const [name, on] = [iface.name, networkText(network)];
  if (isAbsent(iface)) return `interface '${name}' is being unplugged from network ${on}`;
  const isSecondary = network !== undefined && !isDefaultNetwork(network);
  const advice = isSecondary
    ? "; to swap its network, change it in the specification, or with patchbay set interface"
    : "";
  return `interface '${name}' is on network ${on}${advice}`;
}

function differingFields(iface: Iface, { request }: AddIfaceFacts): readonly string[] {
  return Object.entries(request.fields).flatMap(([field, value]) => {
    const current = (iface as Readonly<Record<string, unknown>>)[field];
    const same =
      field === "macAddress" && typeof value === "string" && typeof current === "string"
        ? normalizeMac(value) === normalizeMac(current)
        : isEqual(value, current);
    const ignored = field === "state" && isAbsent(iface);
    return same || ignored ? [] : [field];
  });
}

function withoutUnplug(iface: Iface, state: string | undefined): Iface {
  const back: Iface = { ...iface };
  delete back.state;
  return state === undefined ? back : { ...back, state };
}

/** A request can only name a secondary network. */
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
  const live = findLiveVmi(target) !== undefined;
  return {
    kind: "patch",
    operations: patchTarget(target, { networks, ifaces }),
    effect: live ? "live" : "start",
    message: live
      ? `interface '${request.name}' will be plugged into the running guest`
      : `interface '${request.name}' will be plugged when the VM starts`,
  };
}

/** The interface in the running VMI, if the VM has deleted it and the unplug has not finished. */
function findUnplugging({ target, request }: AddIfaceFacts): Iface | undefined {
  const vmi = target.kind === "vm" ? findLiveVmi(target) : undefined;
  return vmi === undefined ? undefined : findByName(ifacesOf(vmi.spec), request.name);
}

/** The node reports free ports. Interfaces that are being plugged have reserved some of them. */
function capacityProblem(facts: AddIfaceFacts, wanted: Iface): string | undefined {
  const vmi = findLiveVmi(facts.target);
  if (vmi === undefined) return undefined;
  const unfit = ioPortProblem(vmi, wanted)?.message;
  const ports = reservePorts(vmi, specOf(facts.target), facts.bindings);
  if (unfit !== undefined || ports === undefined || ports.free > ports.reserved.length)
    return unfit;
  const reserved =
    ports.reserved.length === 0
      ? ""
      : `, ${String(ports.reserved.length)} promised to interfaces that are being plugged`;
  return `no free PCIe port: ${noFreePortMessage(vmi).message}${reserved}`;
}

/** Maps a field of the spec to the field of the request that sets it. */
function toRequestField(field: string, paths: { iface: string; network: string }): string {
  if (field.startsWith(`${paths.network}.multus`)) return "networkAttachmentDefinitionName";
  if (field.startsWith(`${paths.iface}.`)) return field.slice(paths.iface.length + 1);
  return field.startsWith(paths.network) || field === paths.iface ? "name" : "";
}

/** Runs the admission rules on the new entries, and names the fields of the request. */
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

function missingNetwork({ target, request, nearestNetwork }: AddIfaceFacts): string {
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
      message: missingNetwork(facts),
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
 * Plans a hotplug. Repeating a request changes nothing and cancels a pending unplug. A name that is in use on another
 * network is a conflict. All errors are reported together.
 */
export function planAddIface(facts: AddIfaceFacts): NicPlan {
  const problem = targetProblem(facts.target);
  if (problem !== undefined) return { kind: "refused", refusal: problem };
  const existing = findByName(ifacesOf(specOf(facts.target)), facts.request.name);
  return existing === undefined ? planNew(facts) : planExisting(facts, existing);
}
