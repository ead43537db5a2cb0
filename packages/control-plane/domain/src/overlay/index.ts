// SPDX-License-Identifier: Apache-2.0
// Merges a domain that a hook returned into the original domain.
import { isJsonObject } from "@patchbay/api/json";
import Builder from "fast-xml-builder";
import { XMLParser } from "fast-xml-parser";
import { checkDocument, reasonOf } from "../xml/check-document.ts";

const MAX_DEPTH = 32;

/** Without comments and processing instructions. `text` is trimmed and joined. */
export interface XmlElement {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly XmlElement[];
  readonly text: string;
}

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
  // Decodes numeric character references: Go writes quotes and line breaks that way.
  // oxlint-disable-next-line typescript/no-deprecated -- what follows it takes a decoder of one's own
  htmlEntities: true,
  ignoreDeclaration: true,
  ignorePiTags: true,
  trimValues: true,
});

const builder = new Builder({ ...SETTINGS, format: true, suppressEmptyNode: true });

function readAttributes(value: unknown): ReadonlyMap<string, string> {
  if (!isJsonObject(value)) return new Map();
  return new Map(Object.entries(value).map(([name, text]) => [name, String(text)]));
}

/** The parser represents a node as an object with its name and its attributes as keys. */
function listElements(nodes: readonly unknown[], depth: number): readonly XmlElement[] {
  if (depth > MAX_DEPTH) throw new Error(`it has more than ${String(MAX_DEPTH)} levels`);
  return nodes.filter(isJsonObject).flatMap((node): readonly XmlElement[] => {
    const name = Object.keys(node).find((key) => key !== ATTRIBUTES && key !== TEXT);
    const content = name === undefined ? undefined : node[name];
    if (name === undefined || !Array.isArray(content)) return [];
    const texts = content.filter(isJsonObject).flatMap(({ [TEXT]: text }) => text ?? []);
    return [
      {
        name,
        attributes: readAttributes(node[ATTRIBUTES]),
        children: listElements(content, depth + 1),
        text: texts.map(String).join("").trim(),
      },
    ];
  });
}

function parseRoot(xml: string): XmlElement {
  checkDocument(xml);
  const nodes: unknown = parser.parse(xml);
  const [root, second] = listElements(Array.isArray(nodes) ? nodes : [], 0);
  if (root === undefined || second !== undefined)
    throw new Error("it has no element that is all of it");
  return root;
}

/** Rejects documents that are too long, too deep or not well formed, or that have a DOCTYPE. */
export function readXml(xml: string): ReadXml {
  try {
    return { ok: true, root: parseRoot(xml) };
  } catch (error) {
    return { ok: false, reason: reasonOf(error) };
  }
}

function toNode({ name, attributes, children, text }: XmlElement): object {
  const texts = text === "" ? [] : [{ [TEXT]: text }];
  const content = [...texts, ...children.map(toNode)];
  return {
    [name]: content,
    ...(attributes.size === 0 ? {} : { [ATTRIBUTES]: Object.fromEntries(attributes) }),
  };
}

export function writeXml(root: XmlElement): string {
  return `${builder.build([toNode(root)]).trim()}\n`;
}

export interface DomainChange {
  /** `missing`: the returned domain lacks it; the merge retains it. */
  readonly kind: "added" | "changed" | "missing";
  /** Names from the root; attributes begin with `@`. */
  readonly path: readonly string[];
  /** The path as text, with the identity of each element. */
  readonly where: string;
  /** New and old value; empty for an element. */
  readonly to: string;
  readonly from: string;
  readonly element?: XmlElement;
  readonly within: readonly XmlElement[];
}

interface MergedElement {
  readonly root: XmlElement;
  readonly changes: readonly DomainChange[];
}

function findChild({ children }: XmlElement, name: string): XmlElement | undefined {
  return children.find((child) => child.name === name);
}

function findAttribute(element: XmlElement | undefined, name: string): string | undefined {
  return element?.attributes.get(name);
}

/** Hooks see aliases without libvirt's prefix for user-defined ones. Source: libvirt formatdomain "alias". */
function aliasOfElement(element: XmlElement): string | undefined {
  return findAttribute(findChild(element, "alias"), "name");
}

/** Identifies an element among those with the same name; undefined: by position only. */
function identifyElement(element: XmlElement): string | undefined {
  const { attributes } = element;
  const alias = aliasOfElement(element);
  if (alias !== undefined) return alias;
  if (element.name === "controller") {
    return [attributes.get("type"), attributes.get("index")].join(" ");
  }
  const target = findChild(element, "target");
  return (
    findAttribute(target, "dev") ??
    findAttribute(findChild(element, "mac"), "address")?.toLowerCase() ??
    findAttribute(target, "name") ??
    attributes.get("name") ??
    attributes.get("alias")
  );
}

interface Position {
  readonly path: readonly string[];
  readonly where: string;
  readonly within: readonly XmlElement[];
}

function toChildPosition(position: Position, element: XmlElement): Position {
  const identity = identifyElement(element);
  const { name } = element;
  return {
    path: [...position.path, name],
    where: `${position.where}/${name}${identity === undefined ? "" : `[${identity}]`}`,
    within: [element, ...position.within],
  };
}

function valueChange(
  position: Position,
  name: string | undefined,
  { from, to }: { readonly from: string | undefined; readonly to: string },
): readonly DomainChange[] {
  if (from === to) return [];
  const place =
    name === undefined
      ? position
      : { ...position, path: [...position.path, `@${name}`], where: `${position.where}/@${name}` };
  const kind = from === undefined ? "added" : "changed";
  return [{ kind, ...place, to, from: from ?? "" }];
}

function mergeAttributes(
  original: XmlElement,
  returned: XmlElement,
  position: Position,
): { readonly attributes: XmlElement["attributes"]; readonly changes: readonly DomainChange[] } {
  const attributes = new Map([...original.attributes, ...returned.attributes]);
  const changes = [...returned.attributes].flatMap(([name, to]) =>
    valueChange(position, name, { from: original.attributes.get(name), to }),
  );
  return { attributes, changes };
}

function extractMatch(original: XmlElement, remaining: XmlElement[]): XmlElement | undefined {
  const identity = identifyElement(original);
  const index = remaining.findIndex(
    (one) =>
      one.name === original.name && (identity === undefined || identifyElement(one) === identity),
  );
  return index < 0 ? undefined : remaining.splice(index, 1)[0];
}

function mergeChildren(
  original: XmlElement,
  returned: XmlElement,
  position: Position,
): { readonly children: readonly XmlElement[]; readonly changes: readonly DomainChange[] } {
  const remaining = [...returned.children];
  const changes: DomainChange[] = [];
  const retained = original.children.map((child) => {
    const match = extractMatch(child, remaining);
    if (match === undefined) {
      changes.push({
        kind: "missing",
        ...toChildPosition(position, child),
        to: "",
        from: "",
        element: child,
      });
      return child;
    }
    const merged = mergeElement(child, match, toChildPosition(position, child));
    changes.push(...merged.changes);
    return merged.root;
  });
  for (const element of remaining) {
    const { path, where } = toChildPosition(position, element);
    changes.push({
      kind: "added",
      path,
      where,
      within: position.within,
      to: "",
      from: "",
      element,
    });
  }
  return { children: [...retained, ...remaining], changes };
}

function mergeElement(
  original: XmlElement,
  returned: XmlElement,
  position: Position,
): MergedElement {
  const { attributes, changes: attributeChanges } = mergeAttributes(original, returned, position);
  const { children, changes: childChanges } = mergeChildren(original, returned, position);
  const text = returned.text === "" ? original.text : returned.text;
  const changes = [
    ...attributeChanges,
    ...valueChange(position, undefined, { from: original.text, to: text }),
    ...childChanges,
  ];
  return { root: { name: original.name, attributes, children, text }, changes };
}

/** Merges `returned` into `original`. Their root elements have the same name. */
export function mergeDomain(original: XmlElement, returned: XmlElement): MergedElement {
  return mergeElement(
    original,
    returned,
    toChildPosition({ path: [], where: "", within: [] }, original),
  );
}
