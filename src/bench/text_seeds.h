// Words that the texts of text_inputs.h are made of, separated by blanks; frequent ones first.
#pragma once

#include <string_view>

namespace perigee::seeds {

inline constexpr std::string_view kFrequent =
    "the of and to in a is that for it was on with as he be at by I this had not are but from or have an "
    "they which one you were all her she there would their we him been has when who will no more if out so";

inline constexpr std::string_view kWords =
    "time people year way day man thing woman life child world school state family student group country "
    "problem hand part place case week company system program question work government number night point "
    "home water room mother area money story fact month lot right study book eye job word business issue "
    "side kind head house service friend father power hour game line end member law car city community "
    "name president team minute idea body information back parent face others level office door health "
    "person art war history party result change morning reason research girl guy moment air teacher force "
    "education foot boy age policy process music market sense nation plan college interest death experience "
    "effect use class control field development role effort rate heart drug show leader light voice wife "
    "police mind price report decision son view relationship town road arm difference value building action "
    "season society tax director position player record paper space ground form event official matter "
    "center couple site project activity star table need court oil situation cost industry figure street "
    "image phone data picture practice piece land product doctor wall patient worker news test movie north "
    "love support technology step baby computer type attention film tree source organization hair look "
    "window culture chance brother energy period course summer plant opportunity term letter condition "
    "choice rule daughter south husband congress floor campaign material population call economy hospital "
    "church risk fire future bank west sport board subject officer rest behavior performance fight top "
    "goal bed order author blood agency nature color store sound movement page race concern series language "
    "response animal factor decade article east artist scene stock career treatment approach size dog fund "
    "media sign thought list individual quality pressure answer resource meeting disease success cup amount "
    "ability staff character growth loss degree attack region television box training trade deal election "
    "feeling standard bill message analysis benefit sex lawyer section glass skill sister professor "
    "operation "
    "crime stage authority design knowledge gun station strategy truth song example environment leg dark "
    "laboratory archaeologist thermodynamics parliament bureaucracy photosynthesis constellation hypothesis";

inline constexpr std::string_view kVerbs =
    "say get make go know take see come think look want give use find tell ask work seem feel try leave "
    "call keep let begin help show hear play run move live believe bring happen write sit stand lose pay "
    "meet include continue learn lead understand watch follow stop create speak read spend grow open walk "
    "win teach offer remember consider appear buy serve die send build stay fall cut reach kill raise pass "
    "sell decide return explain hope develop carry break receive agree support hit produce eat cover catch "
    "draw choose wear measure acknowledge investigate overwhelm reconstruct synthesise";

inline constexpr std::string_view kQualities =
    "new good high old great big American small large national young different black long little important "
    "political bad white real best social only public sure low early able human local late hard major "
    "better economic strong possible whole free military true federal international full special easy "
    "clear recent certain personal open red difficult available likely short single medical current wrong "
    "private past foreign fine common poor natural significant similar hot dead central happy serious ready "
    "simple left physical general environmental financial blue democratic unprecedented counterintuitive";

inline constexpr std::string_view kSyllables =
    "ka lo mi ren tar vel os an dri shu bel gor eth wyn pas qui zor ma lin dar fen hol jas ku ver thi nor";

inline constexpr std::string_view kChinese =
    "我们 他们 这个 一个 没有 中国 什么 自己 问题 工作 时候 可以 知道 现在 因为 社会 发展 经济 国家 如果 "
    "通过 进行 需要 已经 企业 市场 生活 政府 公司 学生 世界 人民 技术 管理 关系 研究 所以 但是 系统 方面 "
    "情况 可能 信息 教育 开始 文化 学习 历史 时间 美国 主要 不同 服务 之间 重要 以及 看到 使用 数据 能力 "
    "地区 北京 活动 影响 方法 环境 科学 然后 产品 城市 网络 语言 模型 计算 程序 结果 提供 设计 内容 必须 "
    "上海 孩子 老师 朋友 喜欢 觉得 今天 明天 晚上 早上 天气 电话 手机 电影 音乐 汽车 飞机 火车 医院 身体 "
    "健康 安全 法律 责任 机会 成功 努力 希望 困难 决定 选择 改变 提高 增加 减少 建立 完成 实现 支持 帮助 "
    "量子 力学 蝴蝶 葡萄 琵琶 徘徊 蹒跚 饕餮 氤氲 龃龉 的 了 在 是 和 也 就 不 都 很 到 说 要 去 会 着";

inline constexpr std::string_view kCodeNouns =
    "buffer index value count size node list map key offset length token vector matrix state result error "
    "handle stream block cache layer weight scale tensor file path name config option thread lock queue task "
    "request response header body cursor iterator parser writer reader context session channel message";

inline constexpr std::string_view kCodeVerbs =
    "get set read write make find add remove push pop update compute parse check load store reset append "
    "merge split open close encode decode init flush visit apply";

inline constexpr std::string_view kCodeTypes =
    "int bool double float auto std::size_t std::string std::uint32_t std::vector<int> const char* "
    "std::string_view std::span<const std::byte> std::unique_ptr<Node> std::optional<std::size_t>";

}  // namespace perigee::seeds
