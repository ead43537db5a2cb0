// SPDX-License-Identifier: Apache-2.0
import { NETWORK_ATTACHMENT_DEFINITIONS, type NetworkAttachmentDefinition } from "@patchbay/api";
import { createFakeStore } from "@patchbay/kube/testing";
import { createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, describe, expect, test } from "vitest";
import { OwnBridges, rememberHostLinks, removeBridges, type CleaningDeps } from "./bridges.ts";
import { pathsOf } from "../data-dir/paths.ts";

interface Link {
  readonly ifname: string;
  readonly master?: string;
}

let links: readonly Link[];
let ran: string[];
let deps: CleaningDeps;

beforeEach(() => {
  links = [{ ifname: "lo" }, { ifname: "old0" }];
  ran = [];
  const runner = createFakeProcessRunner({
    ip: ({ argv }) => {
      ran.push(argv.join(" "));
      return { stdout: JSON.stringify(links) };
    },
  });
  const log = createSilentLogger();
  deps = { files: createFakeFiles(), runner, log, paths: pathsOf("/d"), bootId: "b1" };
});

function nad(name: string, bridge: string): NetworkAttachmentDefinition {
  const config = JSON.stringify({ cniVersion: "1.0.0", type: "bridge", bridge });
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "ns" },
    spec: { config },
  };
}

describe("bridges of this machine", () => {
  test("are those of the default network and of networks that were there once", async () => {
    const store = createFakeStore();
    await deps.files.writeAtomic("/d/cni/net.d/1.conflist", '{"plugins":[{"type":"bridge"}]}');
    store.put(NETWORK_ATTACHMENT_DEFINITIONS, nad("blue", "br-blue"));
    expect(await new OwnBridges(deps).list(store)).toEqual(["br-blue", "cni0"]);
    await store.delete(NETWORK_ATTACHMENT_DEFINITIONS, { namespace: "ns", name: "blue" });
    store.put(NETWORK_ATTACHMENT_DEFINITIONS, nad("red", "br-red"));
    expect(await new OwnBridges(deps).list(store)).toEqual(["br-blue", "br-red", "cni0"]);
  });

  test("are remembered when nobody can be asked, until the next boot", async () => {
    const store = createFakeStore();
    store.put(NETWORK_ATTACHMENT_DEFINITIONS, nad("blue", "br-blue"));
    await new OwnBridges(deps).list(store);
    expect(await new OwnBridges(deps).list(undefined)).toEqual(["br-blue"]);
    const broken = { ...store, list: () => Promise.reject(new Error("away")) };
    expect(await new OwnBridges(deps).list(broken)).toEqual(["br-blue"]);
    expect(await new OwnBridges({ ...deps, bootId: "b2" }).list(undefined)).toEqual([]);
  });
});

test("a bridge that an administrator made before its network is not of this machine", async () => {
  const store = createFakeStore();
  await rememberHostLinks(deps);
  links = [...links, { ifname: "br-admin" }];
  store.put(NETWORK_ATTACHMENT_DEFINITIONS, nad("admin", "br-admin"));
  store.put(NETWORK_ATTACHMENT_DEFINITIONS, nad("blue", "br-blue"));
  const bridges = await new OwnBridges(deps).list(store);
  expect(bridges).toEqual(["br-blue"]);
  links = [...links, { ifname: "br-blue" }];
  expect(await new OwnBridges(deps).list(store)).toEqual(["br-blue"]);
  await removeBridges(deps, bridges);
  expect(ran.filter((line) => line.includes(" del "))).toEqual(["ip link del br-blue type bridge"]);
});

test("a bridge is removed that came since the start and has no port", async () => {
  await rememberHostLinks(deps);
  links = [
    ...links,
    { ifname: "br-blue" },
    { ifname: "br-red" },
    { ifname: "v", master: "br-red" },
  ];
  ran = [];
  await removeBridges(deps, ["br-blue", "br-red", "old0", "gone"]);
  expect(ran.filter((line) => line.includes(" del "))).toEqual(["ip link del br-blue type bridge"]);
});
