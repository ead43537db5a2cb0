// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { AppError, minRetryDelayMs, LIBVIRT_ERRORS } from "@patchbay/base";

import { blockedReasonOfFailure } from "../status/blocked-reason.ts";
import {
  isDefinitionFault,
  reasonOf,
  messageWithAdvice,
  type LibvirtErrorCode,
} from "./of-error.ts";

/** What is told of a code in a plug and in an unplug, and how long it is left alone at least. */
interface Row {
  readonly attach: string;
  readonly detach: string;
  readonly leastMs: number;
  /** What the message tells a person to do. */
  readonly says: RegExp;
}

const WITH_BACKOFF = 0;
const SELDOM = 60_000;

/** The same reason both ways. */
function row(reason: string, leastMs: Row["leastMs"], message: RegExp): Row {
  return { attach: reason, detach: reason, leastMs, says: message };
}

/** What only libvirt's log explains. */
const FAILED: Row = {
  attach: "AttachFailed",
  detach: "DetachFailed",
  leastMs: WITH_BACKOFF,
  says: /libvirt's log/,
};

/** The compiler sees to it that no code is missing. */
const ROWS: Readonly<Record<LibvirtErrorCode, Row>> = {
  LIBVIRT_UNREACHABLE: row("LauncherUnreachable", WITH_BACKOFF, /is retried.*launcher pod/),
  LIBVIRT_CONNECTION_LOST: row("LauncherUnreachable", WITH_BACKOFF, /is retried.*launcher pod/),
  LIBVIRT_TIMED_OUT: row("LibvirtTimedOut", WITH_BACKOFF, /is retried; restart the VM/),
  LIBVIRT_NO_DOMAIN: row("DomainMissing", WITH_BACKOFF, /where the VM runs next/),
  LIBVIRT_NOT_RUNNING: row("DomainNotRunning", SELDOM, /when the VM runs again/),
  LIBVIRT_NO_FREE_PORT: row("NoFreePciePort", SELDOM, /unplug an interface.*pcieRootPorts/),
  LIBVIRT_DEVICE_EXISTS: row("DeviceNameTaken", WITH_BACKOFF, /under another name/),
  LIBVIRT_ADDRESS_REFUSED: row("PciAddressInUse", SELDOM, /another pciAddress/),
  LIBVIRT_TAP_REFUSED: row("TapRefused", WITH_BACKOFF, /remove the interface and add it again/),
  LIBVIRT_UNSUPPORTED: row("DeviceUnsupported", SELDOM, /change the interface/),
  LIBVIRT_BUSY: row("DomainBusy", WITH_BACKOFF, /is retried until that ends/),
  LIBVIRT_MIGRATING: row("WaitingForMigration", WITH_BACKOFF, /is retried until that ends/),
  LIBVIRT_UNPLUG_PENDING: row("WaitingForGuest", WITH_BACKOFF, /has not released the device yet/),
  LIBVIRT_AGENT_UNAVAILABLE: {
    attach: "AttachFailed",
    detach: "DetachFailed",
    leastMs: SELDOM,
    says: /guest agent is running/,
  },
  LIBVIRT_DEVICE_MISSING: FAILED,
  LIBVIRT_JOB_ABORTED: FAILED,
  LIBVIRT_PEER_LOST: FAILED,
  LIBVIRT_REFUSED: FAILED,
};

const TABLE = Object.entries(ROWS).map(([code, want]) => ({
  // The keys are those of the type.
  error: new AppError(code as LibvirtErrorCode, { message: "libvirt's words", device: "ua-one" }),
  code,
  ...want,
}));

describe("an error of libvirt", () => {
  test("has a row in the table for each code", () => {
    expect(Object.keys(ROWS).sort()).toEqual(Object.keys(LIBVIRT_ERRORS).sort());
  });

  test.each(TABLE)("$code: a plug waits with $attach, an unplug with $detach", (input) => {
    const plug = blockedReasonOfFailure("attachDevice", input.error, undefined);
    const unplug = blockedReasonOfFailure("detachDevice", input.error, undefined);
    expect([plug.reason, unplug.reason]).toEqual([input.attach, input.detach]);
    expect(plug.message).toContain(input.error.message);
    expect(plug.message).toMatch(input.says);
    expect(plug.attempts).toBe(1);
  });

  test.each(TABLE)("$code is not retried for at least $leastMs ms", ({ error, leastMs }) => {
    expect(minRetryDelayMs(error)).toBe(leastMs);
  });
});

describe("an error of a network", () => {
  const plugin = { plugin: "bridge", command: "ADD" };

  test.each([
    {
      name: "whose configuration is unreadable",
      error: new AppError("CNI_CONFIG_INVALID", { network: "ns/blue", reason: "no" }),
      reason: "NetworkInvalid",
      says: "; correct spec.config of NetworkAttachmentDefinition ns/blue; the attachment is",
      isFault: true,
    },
    {
      name: "whose plugin is missing on the node",
      error: new AppError("CNI_PLUGIN_MISSING", { plugin: "x", path: "/opt/cni/bin" }),
      reason: "PluginMissing",
      says: "; correct the name in spec.config of NetworkAttachmentDefinition ns/blue, or have",
      isFault: true,
    },
    {
      name: "whose IPAM plugin is missing on the node",
      error: new AppError("CNI_PLUGIN_FAILED", {
        ...plugin,
        message: 'failed to find plugin "x" in path [/opt/cni/bin]',
      }),
      reason: "PluginMissing",
      says: "; correct the name in spec.config of NetworkAttachmentDefinition ns/blue, or have",
      isFault: true,
    },
    {
      name: "whose range is exhausted, as host-local reports",
      error: new AppError("CNI_PLUGIN_FAILED", {
        ...plugin,
        message: "failed to allocate for range 0: no IP addresses available in range set: a-b",
      }),
      reason: "AddressesExhausted",
      says: "; every address of network ns/blue is in use: unplug an interface",
      isFault: true,
    },
    {
      name: "whose range is exhausted, as whereabouts reports",
      error: new AppError("CNI_PLUGIN_FAILED", {
        ...plugin,
        message: "Could not allocate IP in range: ip: a / - b",
      }),
      reason: "AddressesExhausted",
      says: "; every address of network ns/blue is in use: unplug an interface",
      isFault: true,
    },
    {
      name: "whose plugin fails for another reason",
      error: new AppError("CNI_PLUGIN_FAILED", { ...plugin, message: "no such device" }),
      reason: undefined,
      says: "no such device; the message is from the plugin, which acts on spec.config of NetworkAttachmentDefinition ns/blue",
      isFault: false,
    },
    {
      name: "whose link is missing on the node",
      error: new AppError("CNI_LINK_MISSING", { network: "ns/blue", link: "e", field: "master" }),
      reason: "NodeLinkUnfit",
      says: "which the node does not have; name another link in spec.config of NetworkAttachmentDefinition ns/blue",
      isFault: true,
    },
    {
      name: "whose VLAN the node's kernel cannot filter",
      error: new AppError("CNI_VLAN_UNSUPPORTED", { network: "ns/blue", field: "vlan" }),
      reason: "VlanUnsupported",
      says: "; use plugin vlan, or a bridge on a VLAN of the node, in spec.config of NetworkAttachmentDefinition ns/blue",
      isFault: true,
    },
    {
      name: "whose addresses are all in use on the node",
      error: new AppError("CNI_ADDRESSES_EXHAUSTED", {
        network: "ns/blue",
        field: "ipam",
        size: "1",
      }),
      reason: "AddressesExhausted",
      says: "; every address of network ns/blue is in use: unplug an interface",
      isFault: true,
    },
    {
      name: "that does not exist",
      error: new AppError("CNI_NETWORK_NOT_FOUND", { network: "ns/blue" }),
      reason: "NetworkNotFound",
      says: "ns/blue; create it, or name another one",
      isFault: false,
    },
  ])("$name has advice", ({ error, reason, says: message, isFault }) => {
    expect(reasonOf(error)).toBe(reason);
    expect(messageWithAdvice(error, { network: "ns/blue" })).toContain(message);
    expect(isDefinitionFault(error)).toBe(isFault);
  });

  test.each([new Error("x"), undefined, new AppError("KUBE_CONFLICT")])(
    "does not include other errors: %s",
    (error) => {
      expect(isDefinitionFault(error)).toBe(false);
    },
  );
});
