// SPDX-License-Identifier: Apache-2.0
import type { KubeVirt } from "@patchbay/api";
import { createFakeCache } from "@patchbay/kube/testing";
import { settle } from "@patchbay/os/testing";
import { beforeEach, expect, test } from "vitest";
import { offerNodeDevices } from "./devices.ts";

let events: string[];
let release: Map<string, () => void>;
beforeEach(() => {
  events = [];
  release = new Map();
});

/** Ends after `release`. */
function offer(device: { readonly resource: string }, signal: AbortSignal): Promise<void> {
  const name = device.resource.replace(/^[^/]*\//, "");
  events.push(`+${name}`);
  const { promise, resolve } = Promise.withResolvers<undefined>();
  signal.addEventListener("abort", () => {
    events.push(`-${name}`);
    release.set(name, () => {
      resolve(undefined);
    });
  });
  return promise;
}

function kubevirt(useEmulation: boolean): KubeVirt {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata: { namespace: "patchbay", name: "patchbay" },
    spec: { configuration: { developerConfiguration: { useEmulation } } },
  };
}

test("offers kvm while guests are not emulated, and again after its last offer has ended", async () => {
  const kubevirts = createFakeCache<KubeVirt>();
  kubevirts.put(kubevirt(true));
  const stop = new AbortController();
  const over = offerNodeDevices({ kubevirts, offer }, stop.signal);
  await settle();
  expect(events).toEqual(["+tun", "+vhost-net", "+sockets"]);

  kubevirts.put(kubevirt(false));
  await settle();
  expect(events.splice(0)).toEqual(["+tun", "+vhost-net", "+sockets", "+kvm"]);

  kubevirts.put(kubevirt(true));
  kubevirts.put(kubevirt(false));
  await settle();
  expect(events).toEqual(["-kvm"]);
  release.get("kvm")?.();
  await settle();
  expect(events.splice(0)).toEqual(["-kvm", "+kvm"]);

  stop.abort(new Error("stopped"));
  await settle();
  expect(events.toSorted()).toEqual(["-kvm", "-sockets", "-tun", "-vhost-net"]);
  let isOver = false;
  void over.then(() => {
    isOver = true;
  });
  for (const name of ["kvm", "sockets", "tun"]) release.get(name)?.();
  await settle();
  expect(isOver).toBe(false);
  release.get("vhost-net")?.();
  await over;
});

test("offers hardware without a configuration, and nothing after a stop", async () => {
  const stop = new AbortController();
  stop.abort(new Error("stopped"));
  const kubevirts = createFakeCache<KubeVirt>();
  await offerNodeDevices({ kubevirts, offer }, stop.signal);
  expect(events).toEqual([]);
  void offerNodeDevices({ kubevirts, offer }, new AbortController().signal);
  await settle();
  expect(events).toEqual(["+kvm", "+tun", "+vhost-net", "+sockets"]);
});
