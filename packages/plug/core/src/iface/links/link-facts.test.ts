// SPDX-License-Identifier: Apache-2.0
// What the links say of an iface whose tap is not ours to make.
import type { BindingRegistry, Iface } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { NO_LINKS } from "../facts.ts";
import { bindingFactsOf, linkFactsOf, type KernelLink } from "./link-facts.ts";
import { wiringOf } from "./wiring.ts";

const MAC = "02:00:00:00:00:01";
const NAMED = { name: "one", podInterfaceName: "pod0123456789a" };
const TAP = "tap0123456789a";
const BRIDGE = "k6t-0123456789a";
const BINDINGS: BindingRegistry = { own: { domainAttachmentType: "tap" } };

function link(name: string, more: Partial<KernelLink> = {}): KernelLink {
  return { name, mtu: 1400, carrier: false, ...more };
}

describe("the device opens what the plugin made", () => {
  const iface: Iface = { name: "one", binding: { name: "own" }, macAddress: MAC };
  const facts = { ...NAMED, iface, binding: { kind: "tap" } } as const;

  test.each<{ name: string; links: readonly KernelLink[]; want: object; asked: string }>([
    {
      name: "by the name of a tap, with its MTU and queues, beside a NIC or not",
      links: [link(NAMED.podInterfaceName, { mtu: 9000 }), link(TAP, { takesQueues: "many" })],
      want: { podInterface: true, mtu: 1400, tapName: TAP, takesQueues: "many" },
      asked: TAP,
    },
    {
      name: "by the name of the pod's NIC where there is no such tap",
      links: [link(NAMED.podInterfaceName, { carrier: true, mac: MAC })],
      want: { podInterface: true, tapOpen: true, mac: MAC, tapName: NAMED.podInterfaceName },
      asked: NAMED.podInterfaceName,
    },
    {
      name: "when there is one",
      links: [link("eth0")],
      want: { podInterface: false, mtu: 0 },
      asked: NAMED.podInterfaceName,
    },
  ])("$name", ({ links, want, asked }) => {
    const found = linkFactsOf(facts, { links });
    expect(found).toMatchObject({ ...want, tap: false, bridge: false });
    expect(wiringOf({ ...facts, links: found })).toMatchObject({
      kind: "tap",
      tapName: asked,
      mac: MAC,
    });
  });

  test("and nothing while nobody knows what it would be called", () => {
    const sources = { links: [link(TAP)] };
    expect(linkFactsOf({ ...facts, podInterfaceName: "" }, sources)).toEqual(NO_LINKS);
  });
});

describe("how an iface was bound, its links tell", () => {
  const REFUSED: Iface = { name: "one", binding: { name: "unheard" } };

  test.each([
    { name: "a bridge is ours, and its tap too", links: [BRIDGE, TAP], want: "bridge" },
    { name: "a bridge alone is what is left of ours", links: [BRIDGE], want: "bridge" },
    { name: "a tap without a bridge is the plugin's", links: [TAP], want: "tap" },
    { name: "nothing says nothing", links: [], want: "bridge" },
  ])("$name", ({ links, want }) => {
    const sources = { links: links.map((name) => link(name)), bindings: BINDINGS };
    expect(bindingFactsOf(NAMED, {}, sources)).toEqual({ kind: want });
    expect(bindingFactsOf(NAMED, { iface: REFUSED }, sources)).toMatchObject({
      kind: "refused",
      left: want,
    });
  });

  test("but not while it says so itself", () => {
    const sources = { links: [link(BRIDGE)], bindings: BINDINGS };
    const iface: Iface = { name: "one", binding: { name: "own" } };
    expect(bindingFactsOf(NAMED, { iface }, sources)).toEqual({ kind: "tap" });
  });

  test("so that nothing of a plugin's is taken for ours", () => {
    const sources = { links: [link(TAP)], bindings: BINDINGS };
    const iface = { ...REFUSED, state: "absent" };
    const binding = bindingFactsOf(NAMED, { iface }, sources);
    expect(linkFactsOf({ ...NAMED, iface, binding }, sources)).toMatchObject({ tap: false });
  });
});
