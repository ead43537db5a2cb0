// SPDX-License-Identifier: Apache-2.0
import type { Attachment, BindingRegistry, VirtualMachineInstance } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { EMPTY_GUEST_VIEW } from "../../guest/agent-view.ts";
import { isForVhostUser } from "../bindings/resolve-binding.ts";
import { collectIfaceFacts } from "../phase.ts";
import type { LinkFacts } from "../facts.ts";
import {
  findSocketProblem,
  listVhostSockets,
  type ObservedSocket,
  checkDataplaneGroup,
} from "./vhost-socket.ts";

const PATH = "/run/patchbay/vhost-user/uid-1/pod1.sock";
const REGISTRY: BindingRegistry = {
  fast: { domainAttachmentType: "vhostuser" },
  slow: { domainAttachmentType: "tap" },
};

function attached(info: object | undefined, more: Partial<Attachment> = {}): Attachment {
  const deviceInfo = info && { type: "vhost-user", "vhost-user": info };
  return {
    name: "one",
    podInterfaceName: "pod1",
    state: "Attached" as const,
    ...(deviceInfo && { deviceInfo }),
    ...more,
  };
}

const CLIENT = attached({ mode: "client", path: PATH });

describe("a socket cannot be used", () => {
  test.each<{ name: string; of: Attachment; seen?: ObservedSocket; says: RegExp | undefined }>([
    { name: "if the plugin reports none", of: attached(undefined), says: /reported no socket/ },
    {
      name: "if QEMU must listen",
      of: attached({ mode: "server", path: PATH }),
      says: /QEMU to listen \(mode "server"\)/,
    },
    ...[
      "/run/other/uid/s",
      "relative",
      "",
      `${PATH}/..`,
      "/run/patchbay/vhost-user/uid",
      PATH.replace("uid-1", ".."),
    ].map((path) => ({
      name: `if its path is ${path}`,
      of: attached({ mode: "client", path }),
      says: /not in a directory below/,
    })),
    {
      name: "if it does not exist",
      of: CLIENT,
      seen: { state: "missing" },
      says: /there is no socket/,
    },
    { name: "if it has not been observed", of: CLIENT, says: /there is no socket/ },
    {
      name: "if it was rejected",
      of: CLIENT,
      seen: { state: "refused", reason: "it is no socket" },
      says: /pod1.sock: it is no socket/,
    },
  ])("$name", ({ of, seen: observed, says: message }) => {
    expect(findSocketProblem(of, observed)?.message).toMatch(message ?? "");
  });

  test("otherwise it can be used, and none is required without an attachment", () => {
    expect(findSocketProblem(CLIENT, { state: "found", id: 1 })).toBeUndefined();
    expect(findSocketProblem(CLIENT, { state: "ready", id: 1 })).toBeUndefined();
    expect(findSocketProblem(undefined, undefined)).toBeUndefined();
    expect(findSocketProblem({ ...CLIENT, state: "Requested" }, undefined)).toBeUndefined();
  });
});

function vmiWith(binding: string, attachment: Attachment): VirtualMachineInstance {
  const vmi = aVmi({ nics: [{ name: "one" }], status: { attachments: [attachment] } });
  const interfaces = [{ name: "one", binding: { name: binding } }];
  return { ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, devices: { interfaces } } } };
}

test.each([
  {
    name: "its socket",
    binding: "fast",
    of: CLIENT,
    want: [{ podInterfaceName: "pod1", path: PATH }],
  },
  { name: "no socket for a different binding", binding: "slow", of: CLIENT, want: [] },
  {
    name: "no socket if the plugin reports none",
    binding: "fast",
    of: attached(undefined),
    want: [],
  },
  {
    name: "no socket outside the allowed directory",
    binding: "fast",
    of: attached({ mode: "client", path: "/etc/passwd" }),
    want: [],
  },
])("lists for an iface $name", ({ binding, of, want }) => {
  expect(listVhostSockets(vmiWith(binding, of), REGISTRY)).toEqual(want);
});

describe("the links of a vhost-user iface", () => {
  function linksWith(
    observed: ObservedSocket,
    known?: number,
    isEmulated = false,
  ): LinkFacts | undefined {
    const deviceTaps = new Map(known === undefined ? [] : [["one", known]]);
    const sockets = new Map([["pod1", observed]]);
    const sources = {
      links: [],
      nics: [],
      guest: EMPTY_GUEST_VIEW,
      bindings: REGISTRY,
      sockets,
      deviceTaps,
      isEmulated,
    };
    return collectIfaceFacts({ vmi: vmiWith("fast", CLIENT), ...sources })[0]?.links;
  }

  test("use one queue pair under software emulation only", () => {
    const observed = { state: "ready", id: 7 } as const;
    const takes = [true, false].map((isEmulated) => linksWith(observed, 7, isEmulated)?.tapQueues);
    expect(takes).toEqual(["one", undefined]);
  });

  test.each<{ name: string; seen: ObservedSocket; known?: number; want: Partial<LinkFacts> }>([
    {
      name: "are complete with a shared socket",
      seen: { state: "ready", id: 7 },
      want: { hasPodInterface: true, isWired: true, isTapOpen: true, tapIndex: 7 },
    },
    {
      name: "must be created for a socket that is not shared",
      seen: { state: "found", id: 7 },
      want: { hasPodInterface: true, isWired: false, tapIndex: 7 },
    },
    {
      name: "do not match the device after the socket was recreated",
      seen: { state: "ready", id: 8 },
      known: 7,
      want: { isWired: true, isTapOpen: false, tapIndex: 8 },
    },
    {
      name: "do not exist without the socket",
      seen: { state: "missing" },
      known: 7,
      want: { hasPodInterface: false, isWired: false, isTapOpen: false },
    },
  ])("$name", ({ seen: observed, known, want }) => {
    expect(linksWith(observed, known)).toMatchObject({ ...want, hasTap: false, hasBridge: false });
  });
});

test("rejects the socket if the cluster filters the guest's frames, unless the interface may opt out", () => {
  const sockets = new Map([["pod1", { state: "ready", id: 7 } as const]]);
  const sources = { links: [], nics: [], guest: EMPTY_GUEST_VIEW, bindings: REGISTRY, sockets };
  const problemWith = (enforced: boolean): string | undefined => {
    const vmi = vmiWith("fast", CLIENT);
    const ifaces = vmi.spec.domain.devices?.interfaces ?? [];
    const interfaces = ifaces.map((iface) => ({
      ...iface,
      portSecurity: { mode: "Off" as const },
    }));
    const spec = { ...vmi.spec, domain: { ...vmi.spec.domain, devices: { interfaces } } };
    const security = { mode: "MAC", enforced } as const;
    const [facts] = collectIfaceFacts({ vmi: { ...vmi, spec }, ...sources, security });
    return facts?.links.socketProblem?.reason;
  };
  expect([true, false].map(problemWith)).toEqual(["PortSecurityNotKept", undefined]);
});

test.each([
  { name: "with a vhost-user NIC", binding: "fast", limits: {}, want: true },
  { name: "with a different NIC", binding: "slow", limits: {}, want: false },
  {
    name: "that requests sockets",
    binding: "slow",
    limits: { "vhost-user.patchbay.io/sockets": "2" },
    want: true,
  },
  {
    name: "that requests no sockets",
    binding: "slow",
    limits: { "vhost-user.patchbay.io/sockets": 0 },
    want: false,
  },
])("a VM $name needs vhost-user support: $want", ({ binding, limits, want }) => {
  const { spec } = vmiWith(binding, CLIENT);
  const requesting = { ...spec, domain: { ...spec.domain, resources: { limits } } };
  expect(isForVhostUser(requesting, REGISTRY)).toBe(want);
});

test.each([
  { gid: 0, says: undefined },
  { gid: 1, says: undefined },
  { gid: 2 ** 32 - 2, says: undefined },
  { gid: 2 ** 32 - 1, says: "it must be the number of a group" },
  { gid: -1, says: "it must be the number of a group" },
  { gid: 1.5, says: "it must be the number of a group" },
  { gid: Number.NaN, says: "it must be the number of a group" },
  {
    gid: 107,
    says: "it is the launchers' own, each of which could make sockets for others then",
  },
])("rejects group $gid: $says", ({ gid, says: message }) => {
  expect(checkDataplaneGroup(gid)).toBe(message);
});
