// SPDX-License-Identifier: Apache-2.0
// XML as elements in their order, from text that may be hostile and back. Pure.
import { isJsonObject } from "@patchbay/api/json";
import Builder from "fast-xml-builder";
import { XMLParser } from "fast-xml-parser";
import { checkDocument, reasonOf } from "../xml/check-document.ts";

/** Elements below one another; a domain of libvirt's has seven. */
const MAX_DEPTH = 32;

/** One element. Comments and processing instructions are gone; text is trimmed, and all of an element's is one. */
export interface XmlElement {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly XmlElement[];
  readonly text: string;
}

/** What a document was read as, or why it is refused. */
type ReadXml =
  | { readonly ok: true; readonly root: XmlElement }
  | { readonly ok: false; readonly reason: string };

const ATTRIBUTES = ":@";
const TEXT = "#text";
const SETTINGS = {
  preserveOrder: true,
  ignoreAttributes: false,
  attributeNamePrefix: "",
} as const;

const parser = new XMLParser({
  ...SETTINGS,
  parseTagValue: false,
  parseAttributeValue: false,
  processEntities: true,
  // Without it numbers stay as they are written: those of Go are `"` and ends of lines.
  // oxlint-disable-next-line typescript/no-deprecated -- what follows it takes a decoder of one's own
  htmlEntities: true,
  ignoreDeclaration: true,
  ignorePiTags: true,
  trimValues: true,
});

const builder = new Builder({ ...SETTINGS, format: true, suppressEmptyNode: true });

function attributesOf(value: unknown): ReadonlyMap<string, string> {
  if (!isJsonObject(value)) return new Map();
  return new Map(Object.entries(value).map(([name, text]) => [name, String(text)]));
}

/** The parser gives each node as an object with its name, and its attributes beside that. */
function elementsOf(nodes: readonly unknown[], depth: number): readonly XmlElement[] {
  if (depth > MAX_DEPTH) throw new Error(`it has more than ${String(MAX_DEPTH)} levels`);
  return nodes.filter(isJsonObject).flatMap((node): readonly XmlElement[] => {
    const name = Object.keys(node).find((key) => key !== ATTRIBUTES && key !== TEXT);
    const below = name === undefined ? undefined : node[name];
    if (name === undefined || !Array.isArray(below)) return [];
    const texts = below.filter(isJsonObject).flatMap(({ [TEXT]: text }) => text ?? []);
    return [
      {
        name,
        attributes: attributesOf(node[ATTRIBUTES]),
        children: elementsOf(below, depth + 1),
        text: texts.map(String).join("").trim(),
      },
    ];
  });
}

function rootOf(xml: string): XmlElement {
  checkDocument(xml);
  const nodes: unknown = parser.parse(xml);
  const [root, second] = elementsOf(Array.isArray(nodes) ? nodes : [], 0);
  if (root === undefined || second !== undefined)
    throw new Error("it has no element that is all of it");
  return root;
}

/** Reads a document; refuses what is too long or too deep, has a DOCTYPE or is not well formed. */
export function readXml(xml: string): ReadXml {
  try {
    return { ok: true, root: rootOf(xml) };
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  }
}

function nodeOf({ name, attributes, children, text }: XmlElement): object {
  const texts = text === "" ? [] : [{ [TEXT]: text }];
  const below = [...texts, ...children.map(nodeOf)];
  return {
    [name]: below,
    ...(attributes.size === 0 ? {} : { [ATTRIBUTES]: Object.fromEntries(attributes) }),
  };
}

/** The document of an element. */
export function writeXml(root: XmlElement): string {
  return `${builder.build([nodeOf(root)]).trim()}\n`;
}
