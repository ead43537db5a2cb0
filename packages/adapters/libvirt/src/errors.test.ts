// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { toAppError, VIR_ERR, VIR_FROM } from "./errors.ts";

/** Compiles assertions; the compiler's complaints. */
function compile(source: string): string {
  const compilation = spawnSync("g++", ["-fsyntax-only", "-x", "c++", "-"], {
    input: source,
    encoding: "utf8",
    timeout: 30_000,
  });
  return compilation.error === undefined ? compilation.stderr : compilation.error.message;
}

function assertionsFor(prefix: string, numbers: Readonly<Record<string, number>>): string {
  return Object.entries(numbers)
    .map(([name, value]) => `static_assert(${prefix}${name} == ${String(value)}, "${name}");`)
    .join("\n");
}

describe("libvirt errors", () => {
  test("numbers equal those of virterror.h", () => {
    const source = [
      "#include <libvirt/virterror.h>",
      assertionsFor("VIR_ERR_", VIR_ERR),
      assertionsFor("VIR_FROM_", VIR_FROM),
    ].join("\n");
    expect(compile(source)).toBe("");
  });

  test("the compiler detects a wrong number", () => {
    const source = `#include <libvirt/virterror.h>\n${assertionsFor("VIR_ERR_", { NO_DOMAIN: 41 })}`;
    expect(compile(source)).toContain("static assertion failed");
  });

  // Messages as libvirt 9.0.0 with QEMU 7.2 gave them.
  test.each([
    {
      name: "a missing domain",
      text: {
        number: 42,
        domain: 10,
        message: "Domain not found: no domain with matching name 'x'",
      },
      want: "LIBVIRT_NO_DOMAIN",
    },
    {
      name: "a NIC missing by MAC",
      text: {
        number: 99,
        domain: 20,
        message:
          "device not found: no device found at address '(<null>)' matching MAC address 02:00:00:00:00:01",
      },
      want: "LIBVIRT_DEVICE_MISSING",
    },
    {
      name: "a NIC missing by alias",
      text: {
        number: 1,
        domain: 20,
        message: "internal error: no device found with alias ua-none",
      },
      want: "LIBVIRT_DEVICE_MISSING",
    },
    {
      name: "no free port",
      text: { number: 1, domain: 20, message: "internal error: No more available PCI slots" },
      want: "LIBVIRT_NO_FREE_PORT",
    },
    {
      name: "a canceled job",
      text: {
        number: 78,
        domain: 10,
        message: "operation aborted: migration out job: canceled by client",
      },
      want: "LIBVIRT_JOB_ABORTED",
    },
    {
      name: "a domain that is being migrated",
      text: {
        number: 68,
        domain: 0,
        message:
          "Timed out during operation: cannot acquire state change lock (held by monitor=remoteDispatchDomainMigratePerform3Params)",
      },
      want: "LIBVIRT_MIGRATING",
    },
    {
      name: "a domain busy with another job",
      text: {
        number: 68,
        domain: 0,
        message:
          "Timed out during operation: cannot acquire state change lock (held by monitor=remoteDispatchDomainSaveFlags)",
      },
      want: "LIBVIRT_BUSY",
    },
    {
      name: "a repeated unplug with native hotplug",
      text: {
        number: 1,
        domain: 10,
        message:
          "internal error: unable to execute QEMU command 'device_del': Device ua-x is already in the process of unplug",
      },
      want: "LIBVIRT_UNPLUG_PENDING",
    },
    {
      name: "an unplug while the power indicator blinks, with native hotplug",
      text: {
        number: 1,
        domain: 10,
        message:
          "internal error: unable to execute QEMU command 'device_del': Hot-unplug failed: guest is busy (power indicator blinking)",
      },
      want: "LIBVIRT_UNPLUG_PENDING",
    },
    {
      name: "a closed connection",
      text: { number: 1, domain: 7, message: "internal error: client socket is closed" },
      want: "LIBVIRT_CONNECTION_LOST",
    },
    {
      name: "a killed daemon",
      text: { number: 38, domain: 7, message: "Cannot recv data: Connection reset by peer" },
      want: "LIBVIRT_CONNECTION_LOST",
    },
    {
      name: "a call unknown to the daemon",
      text: { number: 55, domain: 7, message: "unknown procedure: 700" },
      want: "LIBVIRT_REFUSED",
    },
    {
      name: "a tap in use by another VM",
      text: {
        number: 38,
        domain: 0,
        message: "Unable to create tap device tapx: Device or resource busy",
      },
      want: "LIBVIRT_TAP_REFUSED",
    },
    {
      name: "a single-queue tap for a multiqueue device",
      text: {
        number: 38,
        domain: 0,
        message: "Unable to create tap device taps: Invalid argument",
      },
      want: "LIBVIRT_TAP_REFUSED",
    },
    {
      name: "a missing tap",
      text: {
        number: 1,
        domain: 10,
        message: "internal error: target managed='no' but specified dev doesn't exist",
      },
      want: "LIBVIRT_TAP_REFUSED",
    },
    {
      name: "a PCI address in use",
      text: {
        number: 27,
        domain: 20,
        message: "XML error: Attempted double use of PCI Address 0000:03:00.0",
      },
      want: "LIBVIRT_ADDRESS_REFUSED",
    },
    {
      name: "a port without hotplug",
      text: {
        number: 27,
        domain: 20,
        message:
          "XML error: The device at PCI address 0000:00:09.0 requires hotplug capability, but the PCI controller with index='0' doesn't support hotplug",
      },
      want: "LIBVIRT_ADDRESS_REFUSED",
    },
    {
      name: "a PCI function other than 0",
      text: {
        number: 1,
        domain: 20,
        message: "internal error: Only PCI device addresses with function=0 are supported",
      },
      want: "LIBVIRT_ADDRESS_REFUSED",
    },
    {
      name: "a stopped guest",
      text: {
        number: 55,
        domain: 20,
        message: "Requested operation is not valid: domain is not running",
      },
      want: "LIBVIRT_NOT_RUNNING",
    },
    {
      name: "a change that libvirt forbids",
      text: {
        number: 29,
        domain: 20,
        message: "operation forbidden: changing device 'acpi index' is not allowed",
      },
      want: "LIBVIRT_UNSUPPORTED",
    },
    {
      name: "a hotplug of a controller",
      text: {
        number: 84,
        domain: 10,
        message: "Operation not supported: 'pci' controller cannot be hot plugged.",
      },
      want: "LIBVIRT_UNSUPPORTED",
    },
    {
      name: "an alias in use",
      text: {
        number: 67,
        domain: 20,
        message: "unsupported configuration: non unique alias detected: ua-d1",
      },
      want: "LIBVIRT_DEVICE_EXISTS",
    },
    {
      name: "an error whose text resembles another error",
      text: { number: 55, domain: 20, message: "No more available PCI slots" },
      want: "LIBVIRT_REFUSED",
    },
    {
      name: "any other error",
      text: { number: 67, domain: 20, message: "unsupported configuration: something else" },
      want: "LIBVIRT_REFUSED",
    },
  ])("maps $name to $want", ({ text, want }) => {
    expect(toAppError({ ...text, level: 2 }, { call: "virDomainX", domain: "vm1" }).code).toBe(
      want,
    );
  });

  test("the error names the call and contains libvirt's message", () => {
    const error = toAppError(
      { number: 67, domain: 20, level: 2, message: "unsupported configuration" },
      { call: "virDomainAttachDeviceFlags", domain: "vm1" },
    );
    expect(error.message).toBe(
      "libvirt refused virDomainAttachDeviceFlags: unsupported configuration (67/20)",
    );
  });
});
