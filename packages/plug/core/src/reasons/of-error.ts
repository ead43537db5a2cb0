// SPDX-License-Identifier: Apache-2.0
// Which reason an error is, and what a person is told of it.
import { fillIn, isAppError, messageOf, type AppError, type Details } from "../errors/app-error.ts";
import type { ErrorCode } from "../errors/catalogue.ts";
import type { LIBVIRT_ERRORS } from "../errors/catalogue/node/libvirt.ts";
import { adviceOn, type Reason } from "./table.ts";

/** The codes that any call of libvirt can fail with. */
export type LibvirtErrorCode = keyof typeof LIBVIRT_ERRORS;

/** What is said of an error that is no reason of its own: the word is that of the step, which is all that is known. */
interface Advised {
  readonly advice: string;
}

const IN_ITS_LOG: Advised = {
  advice: "libvirt's log in the launcher pod says more; restart the VM if this persists",
};

/** The compiler sees to it that no code is missing. */
const OF_LIBVIRT: Readonly<Record<LibvirtErrorCode, Reason | Advised>> = {
  LIBVIRT_UNREACHABLE: "LauncherUnreachable",
  LIBVIRT_CONNECTION_LOST: "LauncherUnreachable",
  LIBVIRT_TIMED_OUT: "LibvirtTimedOut",
  LIBVIRT_NO_DOMAIN: "DomainMissing",
  LIBVIRT_NOT_RUNNING: "DomainNotRunning",
  LIBVIRT_DEVICE_MISSING: IN_ITS_LOG,
  LIBVIRT_NO_FREE_PORT: "NoFreePciePort",
  LIBVIRT_DEVICE_EXISTS: "DeviceNameTaken",
  LIBVIRT_ADDRESS_REFUSED: "PciAddressInUse",
  LIBVIRT_TAP_REFUSED: "TapRefused",
  LIBVIRT_UNSUPPORTED: "DeviceUnsupported",
  LIBVIRT_AGENT_UNAVAILABLE: { advice: "check that the guest agent is running" },
  LIBVIRT_BUSY: "DomainBusy",
  LIBVIRT_MIGRATING: "WaitingForMigration",
  LIBVIRT_UNPLUG_PENDING: "WaitingForGuest",
  LIBVIRT_JOB_ABORTED: IN_ITS_LOG,
  LIBVIRT_PEER_LOST: IN_ITS_LOG,
  LIBVIRT_REFUSED: IN_ITS_LOG,
};

const OF_CODE: Readonly<Partial<Record<ErrorCode, Reason | Advised>>> = {
  ...OF_LIBVIRT,
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
  CNI_CONFIG_INVALID: "NetworkInvalid",
  CNI_PLUGIN_MISSING: "PluginMissing",
  CNI_LINK_MISSING: "NodeLinkUnfit",
  CNI_LINK_UNFIT: "NodeLinkUnfit",
  CNI_VLAN_UNSUPPORTED: "VlanUnsupported",
  CNI_ADDRESSES_EXHAUSTED: "AddressesExhausted",
  CNI_CANNOT_CARRY_VM: "NetworkCannotCarryVm",
  CNI_PLUGIN_FAILED: {
    advice:
      "the message is from the plugin, which acts on spec.config of NetworkAttachmentDefinition {network}; the attachment is tried again",
  },
  CNI_TIMED_OUT: {
    advice:
      "an administrator can find out on the node what the plugin waits for (a DHCP server, for example); the attachment is tried again",
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

/** What plugins say in words only. Source: plugins host-local, whereabouts; CNI libcni "failed to find plugin". */
const OF_WORDS: readonly (readonly [RegExp, Reason | Advised])[] = [
  [/no IP addresses available in|could not allocate IP in range/i, "AddressesExhausted"],
  [/failed to find plugin/, "PluginMissing"],
];

function knownOfPlugin({ code, details }: AppError): Reason | Advised | undefined {
  if (code !== "CNI_PLUGIN_FAILED") return undefined;
  const words = String(details["message"]);
  return OF_WORDS.find(([pattern]) => pattern.test(words))?.[1];
}

function knownOf(error: unknown): Reason | Advised | undefined {
  return isAppError(error) ? (knownOfPlugin(error) ?? OF_CODE[error.code]) : undefined;
}

/** What only a change of the network's definition, or of what it names on the node, can mend, whoever asks for it. */
const OF_DEFINITION: readonly (Reason | Advised | undefined)[] = [
  "NetworkInvalid",
  "DefinitionFileMissing",
  "DefinitionForbidden",
  "AddressesExhausted",
  "PluginMissing",
  "NodeLinkUnfit",
  "VlanUnsupported",
];

/** Whether an attachment failed for what its network's definition says. */
export function isFaultOfDefinition(error: unknown): boolean {
  return OF_DEFINITION.includes(knownOf(error));
}

/** The reason that an error is whatever was tried; undefined where only the step gives a word. */
export function reasonOf(error: unknown): Reason | undefined {
  const known = knownOf(error);
  return typeof known === "string" ? known : undefined;
}

/** The message of an error with its advice, which `names` and the error's details fill in. */
export function sayWithAdvice(error: unknown, names: Details = {}): string {
  const known = knownOf(error);
  const details = isAppError(error) ? error.details : {};
  const advice = typeof known === "string" ? adviceOn(known) : known?.advice;
  return [messageOf(error), advice === undefined ? [] : fillIn(advice, { ...details, ...names })]
    .flat()
    .join("; ");
}
