#include "text/argument_writer.h"

#include "text/json_scan.h"
#include "text/json_string.h"
#include "text/json_tree.h"

namespace perigee {

void ArgumentWriter::begin_argument(std::string_view key, std::string_view type, std::string& out) {
  end_element(out);
  if (form_ == Form::kRaw) return ignore();
  form_ = Form::kMembers;
  out += members_++ == 0 ? '{' : ',';
  append_python_string(out, key);
  out += ':';
  element_ = type.empty() || type == "string" ? Element::kString : Element::kLiteral;
  if (element_ == Element::kString) out += '"';
}

void ArgumentWriter::begin_raw(std::string& out) {
  end_element(out);
  if (form_ != Form::kUndecided) return ignore();
  form_ = Form::kRaw;
  element_ = Element::kRaw;
}

void ArgumentWriter::ignore() {
  element_ = Element::kIgnored;
  mixed_ = true;
}

void ArgumentWriter::append_value(std::string_view text, std::string& out) {
  switch (element_) {
    case Element::kString:
      append_json_escaped(out, text);
      break;
    case Element::kLiteral:
      held_ += text;
      break;
    case Element::kRaw:
      out += text;
      raw_bytes_ += text.size();
      break;
    case Element::kIgnored:
    case Element::kNone:
      break;
  }
}

void ArgumentWriter::end_element(std::string& out) {
  if (element_ == Element::kString) out += '"';
  if (element_ == Element::kLiteral) write_literal(out);
  element_ = Element::kNone;
}

void ArgumentWriter::write_literal(std::string& out) {
  if (is_json_value(held_)) {
    out += trim_json_space(held_);
  } else {
    append_python_string(out, held_);
    not_json_ = true;
  }
  held_.clear();
}

void ArgumentWriter::finish(std::string& out) {
  end_element(out);
  if (form_ == Form::kMembers) {
    out += '}';
  } else if (raw_bytes_ == 0) {
    out += "{}";
  }
}

}  // namespace perigee
