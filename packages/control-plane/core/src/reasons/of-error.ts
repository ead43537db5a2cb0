// SPDX-License-Identifier: Apache-2.0
import {
  fillTemplate,
  isAppError,
  messageOf,
  type AppError,
  type Details,
  type ErrorCode,
  type LIBVIRT_ERRORS,
} from "@patchbay/base";

import { findAdvice, type Reason } from "./table.ts";

export type LibvirtErrorCode = keyof typeof LIBVIRT_ERRORS;

/** Advice for an error whose reason depends on the failed step. */
interface AdviceOnly {
  readonly advice: string;
}

const SEE_LIBVIRT_LOG: AdviceOnly = {
  advice: "see libvirt's log in the launcher pod; restart the VM if this persists",
};

const LIBVIRT_REASONS: Readonly<Record<LibvirtErrorCode, Reason | AdviceOnly>> = {
  LIBVIRT_UNREACHABLE: "LauncherUnreachable",
  LIBVIRT_CONNECTION_LOST: "LauncherUnreachable",
  LIBVIRT_TIMED_OUT: "LibvirtTimedOut",
  LIBVIRT_NO_DOMAIN: "DomainMissing",
  LIBVIRT_NOT_RUNNING: "DomainNotRunning",
  LIBVIRT_DEVICE_MISSING: SEE_LIBVIRT_LOG,
  LIBVIRT_NO_FREE_PORT: "NoFreePciePort",
  LIBVIRT_DEVICE_EXISTS: "DeviceNameTaken",
  LIBVIRT_ADDRESS_REFUSED: "PciAddressInUse",
  LIBVIRT_TAP_REFUSED: "TapRefused",
  LIBVIRT_UNSUPPORTED: "DeviceUnsupported",
  LIBVIRT_AGENT_UNAVAILABLE: { advice: "check that the guest agent is running" },
  LIBVIRT_BUSY: "DomainBusy",
  LIBVIRT_MIGRATING: "WaitingForMigration",
  LIBVIRT_UNPLUG_PENDING: "WaitingForGuest",
  LIBVIRT_JOB_ABORTED: SEE_LIBVIRT_LOG,
  LIBVIRT_PEER_LOST: SEE_LIBVIRT_LOG,
  LIBVIRT_REFUSED: SEE_LIBVIRT_LOG,
};

const REASONS_BY_CODE: Readonly<Partial<Record<ErrorCode, Reason | AdviceOnly>>> = {
  ...LIBVIRT_REASONS,
  CRI_UNAVAILABLE: "RuntimeUnavailable",
  CRI_FAILED: "RuntimeUnavailable",
  CRI_TIMED_OUT: "RuntimeUnavailable",
  PODNET_NETWORK_CANNOT_CARRY_VM: "NetworkCannotCarryVm",
  PODNET_LINK_MISSING: "PodInterfaceMissing",
  CNI_NETWORK_NOT_FOUND: "NetworkNotFound",
  CNI_DEFINITION_FILE_MISSING: "DefinitionFileMissing",
  CNI_NETWORK_FORBIDDEN: "NetworkForbidden",
  CNI_DEFINITION_FORBIDDEN: "DefinitionForbidden",
  CNI_DEFINITION_TOLERATED: "DefinitionTolerated",
  CNI_DEFINITION_MEMBERS_IGNORED: "DefinitionMembersIgnored",
  CNI_REQUEST_FORBIDDEN: "RequestForbidden",
  CNI_CONFIG_INVALID: "NetworkInvalid",
  CNI_PLUGIN_MISSING: "PluginMissing",
  CNI_LINK_MISSING: "NodeLinkUnfit",
  CNI_LINK_UNFIT: "NodeLinkUnfit",
  CNI_VLAN_UNSUPPORTED: "VlanUnsupported",
  CNI_ADDRESSES_EXHAUSTED: "AddressesExhausted",
  CNI_CANNOT_CARRY_VM: "NetworkCannotCarryVm",
  CNI_PLUGIN_FAILED: {
    advice:
      "the message is from the plugin, which acts on spec.config of NetworkAttachmentDefinition {network}; the attachment is retried",
  },
  CNI_TIMED_OUT: {
    advice:
      "an administrator can find out on the node what the plugin waits for (a DHCP server, for example); the attachment is retried",
  },
  CNI_REQUEST_INVALID: "RequestInvalid",
  CNI_REQUEST_NOT_MET: "RequestNotMet",
  CNI_NO_DEVICE: "NoDevice",
  DEVICES_UNKNOWN: "NoDevice",
  CNI_NAME_TAKEN: "InterfaceNameTaken",
  HOOK_UNREACHABLE: "HookFailed",
  HOOK_TIMED_OUT: "HookFailed",
  HOOK_FAILED: "HookFailed",
  HOOK_ANSWER_REFUSED: "HookAnswerRefused",
};

/** Reasons of CNI plugin failures by message, because their error codes are ambiguous. Source: host-local, whereabouts, libcni. */
const PLUGIN_MESSAGES: readonly (readonly [RegExp, Reason | AdviceOnly])[] = [
  [/no IP addresses available in|could not allocate IP in range/i, "AddressesExhausted"],
  [/failed to find plugin/, "PluginMissing"],
];

function matchPluginMessage({ code, details }: AppError): Reason | AdviceOnly | undefined {
  if (code !== "CNI_PLUGIN_FAILED") return undefined;
  const text = String(details["message"]);
  return PLUGIN_MESSAGES.find(([pattern]) => pattern.test(text))?.[1];
}

function findMapped(error: unknown): Reason | AdviceOnly | undefined {
  return isAppError(error) ? (matchPluginMessage(error) ?? REASONS_BY_CODE[error.code]) : undefined;
}

export const DEFINITION_WARNINGS: readonly string[] = [
  "DefinitionTolerated",
  "DefinitionMembersIgnored",
] satisfies Reason[];

/** Reasons that persist until a user changes the network's definition, or a plugin, address range or link that it references. */
const DEFINITION_REASONS: readonly (Reason | AdviceOnly | undefined)[] = [
  "NetworkInvalid",
  "DefinitionFileMissing",
  "DefinitionForbidden",
  "AddressesExhausted",
  "PluginMissing",
  "NodeLinkUnfit",
  "VlanUnsupported",
];

export function isDefinitionFault(error: unknown): boolean {
  return DEFINITION_REASONS.includes(findMapped(error));
}

/** Returns the error's reason. Undefined if the error alone does not determine the reason; callers then use a reason of the failed step. */
export function reasonOf(error: unknown): Reason | undefined {
  const mapping = findMapped(error);
  return typeof mapping === "string" ? mapping : undefined;
}

/** Returns the error's message with advice. The error's details and `names` replace placeholders in the advice. */
export function messageWithAdvice(error: unknown, names: Details = {}): string {
  const mapping = findMapped(error);
  const details = isAppError(error) ? error.details : {};
  const advice = typeof mapping === "string" ? findAdvice(mapping) : mapping?.advice;
  return [
    messageOf(error),
    advice === undefined ? [] : fillTemplate(advice, { ...details, ...names }),
  ]
    .flat()
    .join("; ");
}
