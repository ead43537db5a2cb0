// SPDX-License-Identifier: Apache-2.0
// Parsers of bytes and texts that clients, tenants, guests, plugins, hooks or the kernel supply.
import { Duplex } from "node:stream";
import * as dns from "dns-packet";
import {
  parseNetworks,
  parseNetworkStatus,
  sanitizeNetworkStatus,
  parseAttachmentErrors,
  parseCniGateways,
} from "@patchbay/api/annotations";
import { ByteQueue } from "@patchbay/base";
import {
  buildNetworkStatuses,
  parseNetworkConfig,
  parseResult,
} from "../../packages/adapters/cni/src/formats.ts";
import {
  parseGuestAgent,
  parseGuestInterfaces,
  parseGuestRoutes,
  parseRouteFile,
} from "../../packages/adapters/libvirt/src/guest-agent.ts";
import {
  decodeMessages,
  encodeAttribute,
  encodeMessage,
} from "../../packages/adapters/podnet/src/netlink/message.ts";
import {
  AF_INET,
  decodeLinks,
  decodeNeighbor,
  IFA,
  IFLA,
  MESSAGE_HEADER_BYTES,
  NDA,
  RTM,
} from "../../packages/adapters/podnet/src/netlink/rtnetlink.ts";
import { parseRefusals } from "../../packages/adapters/podnet/src/nft/counters.ts";
import { parseRuleset } from "../../packages/adapters/podnet/src/nft/table.ts";
import { parseMounts } from "../../packages/adapters/os/src/volumes/mounts.ts";
import { PacketLimiter } from "../../packages/control-plane/core/src/guest/capture.ts";
import { mergeDomain, readXml } from "../../packages/control-plane/domain/src/overlay/index.ts";
import { parseDomain } from "../../packages/control-plane/domain/src/xml/parse.ts";
import { readScreen } from "../../packages/control-plane/virt-api/src/screen/rfb.ts";
import { parseStreamUrl } from "../../packages/control-plane/virt-api/src/streams/paths.ts";
import { parseLabelSelector } from "../../packages/standalone/apiserver/src/meta/label-selector.ts";
import { parseCanonical, parseJson } from "../../packages/standalone/apiserver/src/objects/json.ts";
import { parseYaml } from "../../packages/standalone/apiserver/src/objects/yaml.ts";
import { decodeProtobuf } from "../../packages/standalone/apiserver/src/protobuf/decode.ts";
import { parsePath } from "../../packages/standalone/apiserver/src/table/json-path.ts";
import { parseRepository } from "../../packages/standalone/containerd/src/images/reference.ts";
import { LogPrinter } from "../../packages/standalone/node-runtime/src/kubelet-api/log-format.ts";
import {
  MessageSplitter,
  readAnswers,
  readQuery,
} from "../../packages/standalone/service-net/src/dns/packets.ts";
import { times, type Subject } from "./subject.ts";
import { TEXT_SUBJECTS } from "./texts.ts";

/** Cuts the bytes into pieces of one byte. */
function toBytes(bytes: Buffer): Buffer[] {
  return times(bytes.length, (index) => bytes.subarray(index, index + 1));
}

const KIB = 1024;

/** Pointers that lead from one to the next, as in a name that a decoder follows for a long time. */
function chainPointers(bytes: Buffer, start: number): Buffer {
  for (let offset = start; offset + 1 < bytes.length; offset += 2)
    bytes.writeUInt16BE(0xc000 | Math.min(0x3ffe, Math.max(12, offset - 2)), offset);
  return bytes;
}

function aQuery(recordCount: number): Buffer {
  const query = dns.encode({ type: "query", id: 1, questions: [{ type: "A", name: "a.example" }] });
  query.writeUInt16BE(recordCount, 10);
  return query;
}

const DNS: readonly Subject[] = [
  {
    name: "DNS query with chained pointers",
    limit: 64 * KIB,
    prepare: (size) => {
      const query = aQuery(5000);
      const bytes = chainPointers(Buffer.concat([query, Buffer.alloc(size)]), query.length);
      return () => readQuery(bytes);
    },
  },
  {
    name: "DNS query whose question is a pointer",
    limit: 2 * KIB,
    prepare: (size) => {
      const bytes = chainPointers(
        Buffer.concat([aQuery(0).subarray(0, 12), Buffer.alloc(size)]),
        12,
      );
      return () => readQuery(bytes);
    },
  },
  {
    name: "DNS answer",
    limit: 512,
    prepare: (size) => {
      const bytes = dns.encode({
        type: "response",
        questions: [{ type: "A", name: "a.example" }],
        answers: times(size, () => ({ type: "CNAME", name: "a.example", data: "b.example" })),
      });
      return () => readAnswers(bytes);
    },
  },
  {
    name: "DNS answer with chained pointers",
    limit: 32 * KIB,
    prepare: (size) => {
      const answer = aQuery(0);
      answer.writeUInt16BE(0x8000, 2);
      answer.writeUInt16BE(400, 6);
      const chain = chainPointers(Buffer.concat([answer, Buffer.alloc(size)]), answer.length);
      return () => readAnswers(chain);
    },
  },
  {
    name: "DNS over TCP, in pieces of a byte",
    limit: 8 * KIB,
    prepare: (size) => {
      const message = Buffer.alloc(size);
      message.writeUInt16BE(size - 2, 0);
      const pieces = toBytes(message);
      return () => {
        const splitter = new MessageSplitter();
        return pieces.map((piece) => {
          splitter.push(piece);
          return splitter.next()?.length;
        });
      };
    },
  },
];

/** A screen that sends these pieces, whatever it receives. */
function aScreen(pieces: readonly Buffer[]): Duplex {
  const screen = new Duplex({
    read: () => undefined,
    write: (_chunk, _encoding, done) => {
      done();
    },
  });
  for (const piece of pieces) screen.push(piece);
  screen.push(null);
  return screen;
}

function greetScreen(width: number, height: number): Buffer {
  const server = Buffer.alloc(24);
  server.writeUInt16BE(width, 0);
  server.writeUInt16BE(height, 2);
  return Buffer.concat([
    Buffer.from("RFB 003.008\n"),
    Buffer.from([1, 1]),
    Buffer.alloc(4),
    server,
  ]);
}

async function tryPicture(pieces: readonly Buffer[]): Promise<number> {
  let bytes = 0;
  const countBytes = (_row: number, _column: number, pixels: Buffer): void => {
    bytes += pixels.length;
  };
  const sink = { write: countBytes };
  await readScreen(aScreen(pieces), () => sink).catch(() => undefined);
  return bytes;
}

const RFB: readonly Subject[] = [
  {
    name: "RFB picture, in pieces of a byte",
    limit: 2 * KIB,
    prepare: (size) => {
      const update = Buffer.alloc(16);
      update.writeUInt16BE(1, 2);
      update.writeUInt16BE(size, 8);
      update.writeUInt16BE(1, 10);
      const bytes = Buffer.concat([greetScreen(size, 1), update, Buffer.alloc(4 * size)]);
      return () => tryPicture(toBytes(bytes));
    },
  },
  {
    name: "RFB bells before the picture",
    limit: 32 * KIB,
    prepare: (size) => {
      const bytes = Buffer.concat([greetScreen(1, 1), Buffer.alloc(size, 2)]);
      return () => tryPicture([bytes]);
    },
  },
  {
    name: "RFB rectangles without pixels",
    limit: 2 * KIB,
    prepare: (size) => {
      const rectangle = Buffer.alloc(12);
      rectangle.writeUInt16BE(5120, 6);
      const update = Buffer.from([0, 0, size >> 8, size & 0xff]);
      const bytes = Buffer.concat([greetScreen(1, 5120), update, ...times(size, () => rectangle)]);
      return () => tryPicture([bytes]);
    },
  },
];

function aLink(index: number): Uint8Array {
  const header = Buffer.alloc(MESSAGE_HEADER_BYTES.link);
  header.writeInt32LE(index + 1, 4);
  const body = Buffer.concat([header, encodeAttribute(IFLA.name, `l${String(index)}`)]);
  return encodeMessage({ type: RTM.newLink, flags: 0 }, body);
}

function anAddress(index: number): Uint8Array {
  const header = Buffer.alloc(MESSAGE_HEADER_BYTES.address);
  header[0] = AF_INET;
  header.writeUInt32LE(index + 1, 4);
  const body = Buffer.concat([header, encodeAttribute(IFA.address, Buffer.from([10, 0, 0, 1]))]);
  return encodeMessage({ type: RTM.newAddress, flags: 0 }, body);
}

function aNeighbor(): Uint8Array {
  const header = Buffer.alloc(MESSAGE_HEADER_BYTES.neighbour);
  header[0] = AF_INET;
  const body = Buffer.concat([
    header,
    encodeAttribute(NDA.destination, Buffer.from([10, 0, 0, 1])),
    encodeAttribute(NDA.mac, Buffer.alloc(6)),
  ]);
  return encodeMessage({ type: RTM.newNeighbour, flags: 0 }, body);
}

const KERNEL: readonly Subject[] = [
  {
    name: "netlink dump of links and addresses",
    limit: KIB,
    prepare: (size) => {
      const dump = Buffer.concat([...times(size, aLink), ...times(size, anAddress)]);
      return () => decodeLinks(decodeMessages(dump));
    },
  },
  {
    name: "netlink dump of neighbors",
    limit: KIB,
    prepare: (size) => {
      const dump = Buffer.concat(times(size, aNeighbor));
      return () => decodeMessages(dump).map(decodeNeighbor);
    },
  },
  {
    name: "nft ruleset",
    limit: 2 * KIB,
    prepare: (size) => {
      const chain = (index: number): string => `\tchain c${String(index)} {\n\t\taccept\n\t}`;
      const text = `table inet t {\n${times(size, chain).join("\n")}\n}\n`;
      return () => [...parseRuleset(text)];
    },
  },
  {
    name: "nft counters of dropped frames",
    limit: 2 * KIB,
    prepare: (size) => {
      const chain = (index: number): string =>
        `\tchain c${String(index)} {\n\t\tcounter packets 1 bytes 1 drop\n\t}`;
      const text = times(size, chain).join("\n");
      return () => parseRefusals(text);
    },
  },
  {
    name: "mountinfo",
    limit: 2 * KIB,
    prepare: (size) => {
      const text = times(size, (index) => `1 1 0:1 / /pods/${String(index)} rw - tmpfs t rw`);
      return () => parseMounts(text.join("\n"), "/pods");
    },
  },
];

function aResult(size: number): string {
  return JSON.stringify({
    cniVersion: "1.0.0",
    interfaces: times(size, (index) => ({ name: `net${String(index)}`, sandbox: "/netns" })),
    ips: times(size, (index) => ({ address: "192.0.2.1/24", interface: size - 1 - index })),
    routes: times(size, () => ({ dst: "0.0.0.0/0" })),
  });
}

const PLUGINS_AND_GUESTS: readonly Subject[] = [
  {
    name: "CNI configuration",
    limit: 2 * KIB,
    prepare: (size) => {
      const plugins = times(size, () => ({ type: "bridge/", ipam: { type: "static" } }));
      const text = JSON.stringify({ cniVersion: "1.0.0", name: "n", plugins });
      return () => parseNetworkConfig(text, "n");
    },
  },
  {
    name: "CNI result and its network-status",
    limit: KIB,
    prepare: (size) => {
      const text = aResult(size);
      return () => {
        const result = parseResult(text, "1.0.0");
        return result && buildNetworkStatuses(result, "ns/n", "net0");
      };
    },
  },
  {
    name: "guest agent's interfaces",
    limit: KIB,
    prepare: (size) => {
      const interfaces = times(size, (index) => ({
        name: `eth${String(index)}`,
        addresses: ["::1"],
      }));
      return () => parseGuestInterfaces(interfaces);
    },
  },
  {
    name: "guest agent's commands",
    limit: 2 * KIB,
    prepare: (size) => {
      const supported_commands = times(size, (index) => ({
        name: `c${String(index)}`,
        enabled: true,
      }));
      const text = JSON.stringify({ return: { version: "1", supported_commands } });
      return () => parseGuestAgent(text);
    },
  },
  {
    name: "guest agent's routes",
    limit: 2 * KIB,
    prepare: (size) => {
      const text = JSON.stringify({
        return: times(size, () => ({ version: 4, destination: "::" })),
      });
      return () => parseGuestRoutes(text);
    },
  },
  {
    name: "guest's file of routes",
    limit: 2 * KIB,
    prepare: (size) => {
      const lines = ["Iface\tDestination\tGateway \tFlags\t", ...times(size, () => "a\t0\t0\t0")];
      const content = Buffer.from(lines.join("\n")).toString("base64");
      const text = JSON.stringify({ return: { "buf-b64": content } });
      return () => parseRouteFile(text);
    },
  },
  {
    name: "live domain",
    limit: 256,
    prepare: (size) => {
      const nic = (index: number): string =>
        `<interface type='ethernet'><alias name='a${String(index)}'/><mac address='02:00:00:00:00:01'/></interface>`;
      const disk = (index: number): string => `<disk><source file='/d/${String(index)}'/></disk>`;
      const devices = [...times(size, nic), ...times(size, disk)].join("");
      const xml = `<domain><os><type machine='q35'>hvm</type></os><devices>${devices}</devices></domain>`;
      return () => parseDomain(xml);
    },
  },
  {
    name: "domain that a hook returns",
    limit: KIB,
    prepare: (size) => {
      const devices = (names: readonly string[]): string =>
        `<domain><devices>${names.map((name) => `<disk><alias name='${name}'/></disk>`).join("")}</devices></domain>`;
      const names = times(size, (index) => `d${String(index)}`);
      const [original, returned] = [devices(names), devices(names.toReversed())].map(readXml);
      if (original?.ok !== true || returned?.ok !== true) throw new Error("the XML is invalid");
      return () => mergeDomain(original.root, returned.root).changes.length;
    },
  },
  {
    name: "hook's domain with a long name above many changes",
    limit: KIB,
    prepare: (size) => {
      const xml = (element: string): string =>
        `<domain><a name='${"n".repeat(size)}'>${times(size, () => `<${element}/>`).join("")}</a></domain>`;
      const [original, returned] = [xml("b"), xml("c")].map(readXml);
      if (original?.ok !== true || returned?.ok !== true) throw new Error("the XML is invalid");
      return () => mergeDomain(original.root, returned.root).changes.map(({ where }) => where);
    },
  },
  {
    name: "captured packets, in pieces of a byte",
    limit: 2 * KIB,
    prepare: (size) => {
      const packet = Buffer.alloc(16 + size);
      packet.writeUInt32LE(size, 8);
      const pieces = toBytes(Buffer.concat([Buffer.alloc(24), packet]));
      return () => {
        const limiter = new PacketLimiter(Infinity);
        return pieces.map((piece) => limiter.add(piece).bytes.length);
      };
    },
  },
  {
    name: "bytes that arrive one at a time",
    limit: 2 * KIB,
    prepare: (size) => {
      const pieces = toBytes(Buffer.alloc(size));
      return () => {
        const queue = new ByteQueue();
        for (const piece of pieces) queue.push(piece);
        return times(size / 4, () => queue.take(4)?.length);
      };
    },
  },
];

function annotation(parse: (text: string) => unknown, entry: (index: number) => unknown) {
  return (size: number) => {
    const text = JSON.stringify(times(size, entry));
    return () => parse(text);
  };
}

const TENANTS: readonly Subject[] = [
  {
    name: "annotation networks",
    limit: 64,
    prepare: annotation(parseNetworks, (index) => ({ name: `n${String(index)}` })),
  },
  {
    name: "annotation networks in the short form",
    limit: 64,
    prepare: (size) => {
      const text = times(size, (index) => `ns/n${String(index)}@net${String(index)}`).join(",");
      return () => parseNetworks(text);
    },
  },
  {
    name: "annotation network-status",
    limit: KIB,
    prepare: annotation(
      (text) => parseNetworkStatus(text).map(sanitizeNetworkStatus),
      () => ({ name: "n", ips: ["192.0.2.1"], mac: "02:00:00:00:00:01" }),
    ),
  },
  ...[
    { name: "annotation of failed attachments", parse: parseAttachmentErrors },
    { name: "annotation of gateways", parse: parseCniGateways },
  ].map(({ name, parse }) => ({
    name,
    limit: KIB,
    prepare: (size: number) => {
      const entries = times(size, (index) => [
        `net${String(index)}`,
        { reason: "a", message: "b" },
      ]);
      const text = JSON.stringify(Object.fromEntries(entries));
      return () => parse(text);
    },
  })),
  {
    name: "JSON body",
    limit: 2 * KIB,
    prepare: (size) => {
      const text = JSON.stringify(
        Object.fromEntries(times(size, (index) => [`k${String(index)}`, 1.5])),
      );
      return () => parseJson(text);
    },
  },
  {
    name: "JSON of a patch's tests",
    limit: 2 * KIB,
    prepare: (size) => {
      const text = JSON.stringify(
        times(size, (index) => ({ op: "test", path: "/a", value: index })),
      );
      return () => parseCanonical(text);
    },
  },
  {
    name: "YAML body",
    limit: 372,
    prepare: (size) => {
      const text = times(size, (index) => `k${String(index)}: "a"`).join("\n");
      return () => parseYaml(text);
    },
  },
  {
    name: "protobuf body",
    limit: 2 * KIB,
    prepare: (size) => {
      const typeMeta = Buffer.concat([
        Buffer.from([0x0a, 2]),
        Buffer.from("v1"),
        Buffer.from([0x12, 9]),
        Buffer.from("ConfigMap"),
      ]);
      const entry = Buffer.from([0x12, 6, 0x0a, 1, 0x61, 0x12, 1, 0x62]);
      const raw = Buffer.concat(times(size, () => entry));
      const head = Buffer.alloc(4);
      head.writeUInt32LE(
        (raw.length & 0x7f) |
          0x80 |
          ((((raw.length >> 7) & 0x7f) | 0x80) << 8) |
          (((raw.length >> 14) & 0x7f) << 16),
        0,
      );
      const body = Buffer.concat([
        Buffer.from("k8s\0"),
        Buffer.from([0x0a, typeMeta.length]),
        typeMeta,
        Buffer.from([0x12]),
        head.subarray(0, 3),
        raw,
      ]);
      return () => decodeProtobuf(body);
    },
  },
  {
    name: "label selector",
    limit: 2 * KIB,
    prepare: (size) => {
      const text = `a in (${times(size, (index) => `v${String(index)}`).join(",")})`;
      return () => parseLabelSelector(text)?.({ a: "none" });
    },
  },
  {
    name: "JSON path of a printer column",
    limit: 2 * KIB,
    prepare: (size) => {
      const path = ".a".repeat(size);
      return () => parsePath(path)({}).length;
    },
  },
  {
    name: "path of a stream",
    limit: 2 * KIB,
    prepare: (size) => {
      const url = `/apis/subresources.kubevirt.io/v1/namespaces/${"a".repeat(size)}/virtualmachineinstances/b/console`;
      return () => parseStreamUrl(url);
    },
  },
  {
    name: "image reference",
    limit: 2 * KIB,
    prepare: (size) => {
      const reference = `${"a/".repeat(size)}b:c`;
      return () => parseRepository(reference);
    },
  },
  {
    name: "container log, in pieces of a byte",
    limit: 2 * KIB,
    prepare: (size) => {
      const record = `2026-01-01T00:00:00.000000000Z stdout F ${"a".repeat(size)}\n`;
      const pieces = toBytes(Buffer.from(record));
      return () => {
        const printer = new LogPrinter({ timestamps: false });
        return pieces.map((piece) => printer.push(piece).length);
      };
    },
  },
];

export const PARSERS: readonly Subject[] = [
  ...TEXT_SUBJECTS,
  ...DNS,
  ...RFB,
  ...KERNEL,
  ...PLUGINS_AND_GUESTS,
  ...TENANTS,
].map((subject) => ({ ...subject, name: `parser: ${subject.name}` }));
