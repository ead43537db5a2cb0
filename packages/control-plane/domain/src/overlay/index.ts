// SPDX-License-Identifier: Apache-2.0
// Merges a domain that a hook returned into the original domain.
import { isJsonObject } from "@patchbay/api/json";
import Builder from "fast-xml-builder";
import { XMLParser } from "fast-xml-parser";
import { checkDocument, describeParseError } from "../xml/check-document.ts";

const MAX_DEPTH = 32;
/** Maximum length of an element's identity in messages, because each change below the element repeats it. */
const IDENTITY_LENGTH_MAX = 128;

/** XML element without comments and processing instructions. */
export interface XmlElement {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly XmlElement[];
  readonly text: string;
}

type ParsedXml =
  | { readonly ok: true; readonly root: XmlElement }
  | { readonly ok: false; readonly reason: string };

const ATTRIBUTES_KEY = ":@";
const TEXT_KEY = "#text";
const XML_SETTINGS = {
  preserveOrder: true,
  ignoreAttributes: false,
  attributeNamePrefix: "",
} as const;

const parser = new XMLParser({
  ...XML_SETTINGS,
  parseTagValue: false,
  parseAttributeValue: false,
  processEntities: true,
  // This option also decodes numeric character references, with which hooks written in Go escape quotes and line breaks.
  // oxlint-disable-next-line typescript/no-deprecated -- its successor requires a custom decoder
  htmlEntities: true,
  ignoreDeclaration: true,
  ignorePiTags: true,
  trimValues: true,
});

const builder = new Builder({ ...XML_SETTINGS, format: true, suppressEmptyNode: true });

function readAttributes(value: unknown): ReadonlyMap<string, string> {
  if (!isJsonObject(value)) return new Map();
  return new Map(Object.entries(value).map(([name, text]) => [name, String(text)]));
}

/** Converts the parser's nodes. In each node, one member has the element's name and contains its children; `:@` contains the attributes. */
function listElements(nodes: readonly unknown[], depth: number): readonly XmlElement[] {
  if (depth > MAX_DEPTH) throw new Error(`it has more than ${String(MAX_DEPTH)} levels`);
  return nodes.filter(isJsonObject).flatMap((node): readonly XmlElement[] => {
    const name = Object.keys(node).find((key) => key !== ATTRIBUTES_KEY && key !== TEXT_KEY);
    const content = name === undefined ? undefined : node[name];
    if (name === undefined || !Array.isArray(content)) return [];
    const texts = content.filter(isJsonObject).flatMap(({ [TEXT_KEY]: text }) => text ?? []);
    return [
      {
        name,
        attributes: readAttributes(node[ATTRIBUTES_KEY]),
        children: listElements(content, depth + 1),
        text: texts.map(String).join("").trim(),
      },
    ];
  });
}

function parseRoot(xml: string): XmlElement {
  checkDocument(xml);
  const nodes: unknown = parser.parse(xml);
  const [root, secondRoot] = listElements(Array.isArray(nodes) ? nodes : [], 0);
  if (root === undefined || secondRoot !== undefined)
    throw new Error("it does not have exactly one root element");
  return root;
}

/** Parses XML; rejects documents that are too long, too deep or malformed, or that have a DOCTYPE. */
export function readXml(xml: string): ParsedXml {
  try {
    return { ok: true, root: parseRoot(xml) };
  } catch (error) {
    return { ok: false, reason: describeParseError(error) };
  }
}

function toNode({ name, attributes, children, text }: XmlElement): object {
  const texts = text === "" ? [] : [{ [TEXT_KEY]: text }];
  const content = [...texts, ...children.map(toNode)];
  return {
    [name]: content,
    ...(attributes.size === 0 ? {} : { [ATTRIBUTES_KEY]: Object.fromEntries(attributes) }),
  };
}

export function writeXml(root: XmlElement): string {
  return `${builder.build([toNode(root)]).trim()}\n`;
}

export interface DomainChange {
  /** `missing`: the domain that the hook returned lacks the element, but the merged domain retains it. */
  readonly kind: "added" | "changed" | "missing";
  /** Names of the elements from the root. The name of an attribute begins with `@`. */
  readonly path: readonly string[];
  /** Path as messages show it: each element with its alias, address or position. */
  readonly where: string;
  /** Text of the changed attribute or element. Empty if a whole element was added or is missing, which `element` then contains. */
  readonly newValue: string;
  readonly oldValue: string;
  readonly element?: XmlElement;
  /** Enclosing elements, innermost first. */
  readonly ancestors: readonly XmlElement[];
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

function findAlias(element: XmlElement): string | undefined {
  return findAttribute(findChild(element, "alias"), "name");
}

/** Returns the text that distinguishes the element from siblings with the same tag, such as its alias, address or name. */
function identifyElement(element: XmlElement): string | undefined {
  const { attributes } = element;
  const alias = findAlias(element);
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
  readonly ancestors: readonly XmlElement[];
}

function toChildPosition(position: Position, element: XmlElement): Position {
  const identity = identifyElement(element)?.slice(0, IDENTITY_LENGTH_MAX);
  const { name } = element;
  return {
    path: [...position.path, name],
    where: `${position.where}/${name}${identity === undefined ? "" : `[${identity}]`}`,
    ancestors: [element, ...position.ancestors],
  };
}

function compareValues(
  position: Position,
  name: string | undefined,
  { from: oldValue, to: newValue }: { readonly from: string | undefined; readonly to: string },
): readonly DomainChange[] {
  if (oldValue === newValue) return [];
  const changedPosition =
    name === undefined
      ? position
      : { ...position, path: [...position.path, `@${name}`], where: `${position.where}/@${name}` };
  const kind = oldValue === undefined ? "added" : "changed";
  return [{ kind, ...changedPosition, newValue: newValue, oldValue: oldValue ?? "" }];
}

function mergeAttributes(
  original: XmlElement,
  returned: XmlElement,
  position: Position,
): { readonly attributes: XmlElement["attributes"]; readonly changes: readonly DomainChange[] } {
  const attributes = new Map([...original.attributes, ...returned.attributes]);
  const changes = [...returned.attributes].flatMap(([name, newText]) =>
    compareValues(position, name, { from: original.attributes.get(name), to: newText }),
  );
  return { attributes, changes };
}

function printMatchKey(name: string, identity: string | undefined): string {
  return identity === undefined ? name : `${name} ${identity}`;
}

class Candidates {
  readonly #children: readonly XmlElement[];
  readonly #matched = new Set<XmlElement>();
  readonly #byNameAndIdentity: ReadonlyMap<string, Iterator<XmlElement>>;

  constructor(children: readonly XmlElement[]) {
    this.#children = children;
    const byName = Map.groupBy(children, ({ name }) => name);
    const byIdentity = Map.groupBy(
      children.filter((child) => identifyElement(child) !== undefined),
      (child) => printMatchKey(child.name, identifyElement(child)),
    );
    this.#byNameAndIdentity = new Map(
      [...byName, ...byIdentity].map(([key, list]) => [key, list.values()]),
    );
  }

  take(original: XmlElement): XmlElement | undefined {
    const key = printMatchKey(original.name, identifyElement(original));
    const candidates = this.#byNameAndIdentity.get(key);
    for (let next = candidates?.next(); next?.done === false; next = candidates?.next()) {
      if (this.#matched.has(next.value)) continue;
      this.#matched.add(next.value);
      return next.value;
    }
    return undefined;
  }

  listUnmatched(): readonly XmlElement[] {
    return this.#children.filter((child) => !this.#matched.has(child));
  }
}

function mergeChildren(
  original: XmlElement,
  returned: XmlElement,
  position: Position,
): { readonly children: readonly XmlElement[]; readonly changes: readonly DomainChange[] } {
  const candidates = new Candidates(returned.children);
  const changes: DomainChange[] = [];
  const retainedChildren = original.children.map((child) => {
    const match = candidates.take(child);
    if (match === undefined) {
      changes.push({
        kind: "missing",
        ...toChildPosition(position, child),
        newValue: "",
        oldValue: "",
        element: child,
      });
      return child;
    }
    const merged = mergeElement(child, match, toChildPosition(position, child));
    changes.push(...merged.changes);
    return merged.root;
  });
  const unmatched = candidates.listUnmatched();
  for (const element of unmatched) {
    const { path, where } = toChildPosition(position, element);
    changes.push({
      kind: "added",
      path,
      where,
      ancestors: position.ancestors,
      newValue: "",
      oldValue: "",
      element,
    });
  }
  return { children: [...retainedChildren, ...unmatched], changes };
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
    ...compareValues(position, undefined, { from: original.text, to: text }),
    ...childChanges,
  ];
  return { root: { name: original.name, attributes, children, text }, changes };
}

/** Merges `returned` into `original` and lists the differences. Both root elements must have the same tag. */
export function mergeDomain(original: XmlElement, returned: XmlElement): MergedElement {
  return mergeElement(
    original,
    returned,
    toChildPosition({ path: [], where: "", ancestors: [] }, original),
  );
}
