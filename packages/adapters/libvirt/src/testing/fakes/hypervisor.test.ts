// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { describeHotplugContract, type HotplugBench } from "../contracts/hypervisor-hotplug.ts";
import { describeMoveContract, type MoveBench } from "../contracts/hypervisor-move.ts";
import { describeHypervisorContract, EventLog } from "../contracts/hypervisor.ts";
import { createFakeHypervisor } from "./hypervisor.ts";

const address = { kind: "socket", fd: 7 } as const;

function domainXml(name: string): string {
  const port = (index: number): string =>
    `<controller type='pci' index='${String(index)}' model='pcie-root-port'/>`;
  return `<domain type='qemu'><name>${name}</name><os><type machine='q35'>hvm</type></os>
    <devices><controller type='pci' index='0' model='pcie-root'/>${port(1)}${port(2)}</devices></domain>`;
}

function nicXml(alias: string, number: number, link?: "down"): string {
  const state = link === undefined ? "" : `<link state='down'/>`;
  return `<interface type='ethernet'><mac address='02:00:00:00:00:0${String(number)}'/>
    <target dev='tap${String(number)}' managed='no'/>${state}<alias name='${alias}'/></interface>`;
}

function makeMoveBench(): Promise<MoveBench> {
  const hypervisor = createFakeHypervisor();
  const daemon = hypervisor.daemonAt(address);
  const target = { kind: "socket", fd: 9 } as const;
  hypervisor.daemonAt(target);
  hypervisor.leadTo("qemu:peer", target);
  return Promise.resolve({
    hypervisor,
    source: address,
    target,
    ways: { peerUri: "qemu:peer", memoryUri: "unix:memory" },
    domainXml: (name: string, tap: 1 | 2) => {
      const nic = nicXml("ua-a", tap).replace("'tap", "'tapc");
      return domainXml(name).replace("</devices>", `${nic}</devices>`);
    },
    hold: () => {
      daemon.holdsMoves = true;
    },
    breakConnection: (name: string) => {
      daemon.endMove(name, "broken before");
    },
    close: () => hypervisor.close(),
  });
}

function makeBench(): Promise<HotplugBench> {
  const hypervisor = createFakeHypervisor();
  const daemon = hypervisor.daemonAt(address);
  daemon.unplugPolicy = "hold";
  return Promise.resolve({
    hypervisor,
    address,
    deadAddress: { kind: "socket", fd: 8 },
    domainXml,
    nicXml,
    grantUnplugs: (name) => {
      daemon.grantUnplugs(name);
      return Promise.resolve();
    },
    describeGuest: () => Promise.resolve("a fake guest"),
    killGuest: (name) => {
      daemon.endDomain(name, "crashed");
      return Promise.resolve();
    },
    stopDaemon: () => {
      daemon.stop();
      return Promise.resolve();
    },
    close: () => hypervisor.close(),
  });
}

describeMoveContract("fake", makeMoveBench);
describeHypervisorContract("fake", makeBench);
describeHotplugContract("fake", makeBench);

describe("fake hypervisor", () => {
  test.each([
    { policy: "grant", events: ["deviceRemoved ua-a"], isGone: true },
    { policy: "hold", events: [], isGone: false },
    { policy: "refuse", events: ["deviceRemovalFailed ua-a"], isGone: false },
    { policy: "lose", events: [], isGone: false },
  ] as const)("applies the unplug policy $policy", async ({ policy, events, isGone }) => {
    const hypervisor = createFakeHypervisor();
    const daemon = hypervisor.daemonAt(address);
    daemon.unplugPolicy = policy;
    const vm = await hypervisor.open(address);
    await vm.defineDomain(domainXml("vm1"));
    await vm.startDomain("vm1");
    await vm.attachDevice("vm1", nicXml("ua-a", 1), "live");
    const log = new EventLog(vm);
    await vm.detachDevice("vm1", "ua-a", "live");
    await Promise.resolve();
    expect(log.received).toEqual(events);
    expect(daemon.readXml("vm1", "live")?.includes("ua-a")).toBe(!isGone);
  });

  test("a guest that lost an unplug does not execute it later", async () => {
    const hypervisor = createFakeHypervisor();
    const daemon = hypervisor.daemonAt(address);
    daemon.unplugPolicy = "lose";
    const vm = await hypervisor.open(address);
    await vm.defineDomain(domainXml("vm1"));
    await vm.startDomain("vm1");
    await vm.attachDevice("vm1", nicXml("ua-a", 1), "live");
    await vm.detachDevice("vm1", "ua-a", "live");
    daemon.grantUnplugs("vm1");
    expect(daemon.readXml("vm1", "live")).toContain("ua-a");
  });

  test("a call fails as the test requests, with or without its effect", async () => {
    const hypervisor = createFakeHypervisor();
    const daemon = hypervisor.daemonAt(address);
    const vm = await hypervisor.open(address);
    const busyError = new AppError("LIBVIRT_BUSY", { message: "test" });
    daemon.failNext("defineDomain", busyError);
    await expect(vm.defineDomain(domainXml("vm1"))).rejects.toBe(busyError);
    expect(await vm.findDomain("vm1")).toBeUndefined();
    daemon.failNext("defineDomain", busyError, "half");
    await expect(vm.defineDomain(domainXml("vm1"))).rejects.toBe(busyError);
    expect(await vm.findDomain("vm1")).toBeDefined();
  });

  test("a daemon retains its domains over a restart", async () => {
    const hypervisor = createFakeHypervisor();
    const daemon = hypervisor.daemonAt(address);
    await (await hypervisor.open(address)).defineDomain(domainXml("vm1"));
    daemon.stop();
    await expect(hypervisor.open(address)).rejects.toMatchObject({ code: "LIBVIRT_UNREACHABLE" });
    daemon.start();
    const vm = await hypervisor.open(address);
    expect(await vm.findDomain("vm1")).toBeDefined();
  });
});
